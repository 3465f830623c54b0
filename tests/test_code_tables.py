"""The tables of Xid, SXid, NVLink 5 and GPU models: typed, without gaps or doubles, and tied to the signatures."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TypeVar

import pytest
import yaml

from triage import content
from triage.matching.examples import seen
from triage.model.signature import Cause, Match, Signature, seconds
from triage.model.tables import GpuModel, Nvlink5, Sxid, Xid

T = TypeVar("T")


def table(name: str, kind: type[T]) -> list[T]:
    """The rows of a data file; every fault of the file fails the test."""
    marked = content.read(content.data(name))
    rows = content.convert(marked, list[kind])  # type: ignore[valid-type]
    assert marked.faults == []
    assert rows
    return rows


XIDS = table("xid.yaml", Xid)
SXIDS = table("sxid.yaml", Sxid)
NVLINK5 = table("nvlink5.yaml", Nvlink5)
MODELS = table("gpu_models.yaml", GpuModel)


@cache
def signatures() -> dict[str, Signature]:
    """Signatures of the layers that the tables may name."""
    found = (signature for _, signature in content.load_all("signatures", Signature))
    return {signature.id: signature for signature in found if signature.layer in {"gpu", "nvlink", "pcie", "driver"}}


def numbers(rows: list[Xid] | list[Sxid]) -> Counter[int]:
    """How often each number stands in a table."""
    return Counter(row.number for row in rows)


def test_every_documented_number_stands_once() -> None:
    assert sorted(numbers(XIDS).elements()) == list(range(1, 177))
    assert len(SXIDS) == 420
    assert max(numbers(SXIDS).values()) == 1


def test_nvlink5_rows_differ_in_what_selects_them() -> None:
    keys = Counter((row.xid, row.unit, row.subcode, row.status) for row in NVLINK5)
    assert len(NVLINK5) == 94
    assert max(keys.values()) == 1
    assert all(144 <= row.xid <= 150 and 0 <= row.subcode < 64 and int(row.status, 16) >= 0 for row in NVLINK5)


@pytest.mark.parametrize("row", [*XIDS, *SXIDS], ids=lambda row: f"{type(row).__name__}-{row.number}")
def test_each_row_decides(row: Xid | Sxid) -> None:
    assert row.means.endswith(".") and row.action.endswith(".")
    assert row.severity != "fatal" or not row.action.startswith("No action")
    for repeated in row.history:
        assert repeated.at_least >= 1 and seconds(repeated.within) > 0 and repeated.then.endswith(".")


def test_what_follows_is_documented_too() -> None:
    known = set(numbers(XIDS))
    assert {number for row in XIDS for number in row.follows} <= known
    named = {name.removeprefix("xid-") for row in NVLINK5 for name in row.follows if name.startswith("xid-")}
    assert {int(name) for name in named} <= known


@pytest.mark.parametrize("row", XIDS, ids=lambda row: str(row.number))
def test_the_named_signature_recognises_the_number(row: Xid) -> None:
    """A line with the number, spelled as the driver does, is taken by the signature that the table names."""
    tail = "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x1 0x2)" if 144 <= row.number <= 150 else "name=python, text"
    head = "" if 144 <= row.number <= 150 else "pid=4021, "
    line = f"[12.5] NVRM: Xid (PCI:0000:3b:00): {row.number}, {head}{tail}"
    assert row.signature is not None
    assert seen(signatures()[row.signature], Match(text=line)) is not None


@pytest.mark.parametrize("row", SXIDS, ids=lambda row: str(row.number))
def test_the_named_signature_of_a_switch_number_exists(row: Sxid) -> None:
    assert row.signature in signatures()


@pytest.mark.parametrize("word", ["Fatal", "Non-fatal"])
def test_switch_numbers_of_one_meaning_are_recognised_with_either_word(word: str) -> None:
    """Those whose signature names the number itself; the general ones go by the word, the others by their text."""
    general = {"nvlink/sxid-fatal", "nvlink/sxid-nonfatal"}
    for row in SXIDS:
        if row.signature and row.signature not in general and "nvswitch-" not in row.signature:
            line = f"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {row.number}, {word}, Link 03 {row.prints}"
            assert seen(signatures()[row.signature], Match(text=line)) is not None


def test_every_signature_of_an_xid_can_be_reached() -> None:
    """A signature that covers facts named xid-* is named by a row, or shares its number with one that is."""
    named = {row.signature for row in XIDS}
    for signature in signatures().values():
        if any(fact.startswith("xid-") for fact in signature.covers) and signature.id not in named:
            assert reached_by_its_number(signature) or signature.id == "gpu/uuid-of-address", signature.id


def reached_by_its_number(signature: Signature) -> bool:
    """Does one of its examples carry a number of the table?"""
    texts = " ".join(example.text for example in signature.examples.matches)
    return any(f"): {row.number}, " in texts for row in XIDS)


def test_causes_are_the_whole_list_with_something_to_do() -> None:
    causes = table("causes.yaml", Cause)
    assert len({cause.id for cause in causes}) == len(causes)
    assert all(cause.actions and cause.next_check and cause.means for cause in causes)
    assert {signature.cause for signature in signatures().values()} - {None} <= {cause.id for cause in causes}


def test_models_are_told_apart_by_name() -> None:
    names = Counter(name for model in MODELS for name in model.names)
    assert max(names.values()) == 1
    assert all(model.memory_gib > 0 and model.pcie_width in {8, 16} for model in MODELS)
    geforce = [model for model in MODELS if any("GeForce" in name for name in model.names)]
    assert geforce and not any(model.p2p for model in geforce)


def test_tables_hold_no_yaml_surprises() -> None:
    """Plain YAML readers see the same rows, so that other tools may use the files."""
    for name, rows in (
        ("xid.yaml", XIDS),
        ("sxid.yaml", SXIDS),
        ("nvlink5.yaml", NVLINK5),
        ("gpu_models.yaml", MODELS),
    ):
        assert len(yaml.safe_load(content.data(name).read_text(encoding="utf-8"))) == len(rows)
