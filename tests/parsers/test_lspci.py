"""lspci: links of GPUs and adapters, and cards that answer with ones."""

from __future__ import annotations

from triage.model.base import Value
from triage.model.bundle import Document, File
from triage.parsers import lspci

LISTING = b"""\
00:1f.0 ISA bridge: Intel Corporation C621 Series Chipset LPC Controller
\tSubsystem: Example
05:00.0 Non-Volatile memory controller: Samsung Electronics NVMe SSD
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s (ok), Width x1 (downgraded)
31:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)
4b:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev a1)
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s, Width x4
\t\tLnkCap2: Supported Link Speeds: 2.5-16GT/s
ca:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (ok), Width x8 (downgraded)
"""


def states(data: bytes) -> dict[Value, Value]:
    document = Document(file=File(path="lspci.txt", size=len(data)), data=data, unpickle=bytes)
    return {fact.entity["pci"]: fact.value for fact in lspci.facts(document) if fact.name == "pcie.width_state"}


def test_width_of_gpus_and_adapters_only() -> None:
    assert states(LISTING) == {"0000:31:00": "full", "0000:4b:00": "reduced", "0000:ca:00": "halved"}


def test_recognises_its_own() -> None:
    assert lspci.recognises(LISTING, b"") == 2
    assert lspci.recognises(b"2024-01-01 00:00:00 step 1 loss 2.0\n", b"") == 0


def test_cut_anywhere_nothing_is_raised() -> None:
    for end in range(0, len(LISTING), 7):
        states(LISTING[:end])
