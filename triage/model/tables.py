"""Tables of numbered hardware events (Xid, SXid, NVLink 5 words) and of GPU models, each a YAML list in triage/data.

The numbers and names come from nverror.h and the NVSwitch error header of NVIDIA's open kernel modules (595.45.04);
the vendor's own words for what to do stand apart in `vendor_action`.
"""

from __future__ import annotations

from typing import Literal

from triage.model.base import Spec
from triage.vocabulary import Severity

XidClass = Literal[
    "application", "bus", "confidential", "copy-engine", "display", "engine", "firmware", "flash", "follow-up", "link",
    "memory", "power", "retired-number", "test", "video", "virtual",
]  # fmt: skip
SwitchUnit = Literal[
    "host", "ingress", "egress", "fstate", "tstate", "route", "port", "link-control", "link-interface",
    "transaction-layer", "data-link", "crossbar-credit", "minion", "crossbar", "source-track", "link-interface-2",
    "controller", "modules", "optics-thermal", "multicast", "reduction",
]  # fmt: skip


class Recurrence(Spec, frozen=True, kw_only=True):
    """What to conclude when one card or link repeats the number: `at_least` times within a duration (`24h`, `7d`)."""

    at_least: int
    within: str
    then: str


class Xid(Spec, frozen=True, kw_only=True):
    """One Xid number.

    follows: numbers that usually follow from this one on the same card. vendor_action, vendor_follow_up: the vendor's
    bucket words, None where its catalogue has none. signature: id of the signature that recognises the line.
    """

    number: int
    mnemonic: str
    kind: XidClass
    severity: Severity
    means: str
    action: str
    vendor_action: str | None = None
    vendor_follow_up: str | None = None
    follows: list[int] = []
    history: list[Recurrence] = []
    signature: str | None = None


class Sxid(Spec, frozen=True, kw_only=True):
    """One number of an NVSwitch. `severity` is the usual one: the word Fatal or Non-fatal in the line decides.

    prints: what the driver writes behind the severity, None where its source prints nothing fixed.
    """

    number: int
    mnemonic: str
    unit: SwitchUnit
    severity: Severity
    means: str
    action: str
    prints: str | None = None
    history: list[Recurrence] = []
    signature: str | None = None


class Nvlink5(Spec, frozen=True, kw_only=True):
    """One row of the decoding of Xid 144 to 150: subcode is bits 20 to 25 of the first word, status the second word.

    unit: names that the line may use, separated by `/`. follows: `xid-N`, or packet loss at this or the other end.
    """

    xid: int
    unit: str
    subcode: int
    status: str
    severity: Severity
    link_only: bool = False
    origin: Literal["hardware", "software", "firmware", "either", "none"]
    action: str
    vendor_action: str
    vendor_follow_up: str
    follows: list[str] = []


class GpuModel(Spec, frozen=True, kw_only=True):
    """One GPU model as sold. None is unknown, not zero.

    names: parts of the name that nvidia-smi prints, longest first. memory_gib: nominal. nvlinks: links at the module
    (0: none). power_w: default board power. sm_mhz: highest SM clock. p2p: peer copies over PCIe allowed by the driver.
    """

    id: str
    names: list[str]
    architecture: str
    compute: str
    memory_gib: int
    pcie_generation: int
    pcie_width: int
    nvlinks: int
    p2p: bool
    ecc: bool
    power_w: int | None = None
    sm_mhz: int | None = None
    memory_gb_s: int | None = None
