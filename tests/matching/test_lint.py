"""Lint: each fault, told with its line, all of a file at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matching.building import MINIMAL, write
from triage.matching import lint_regex
from triage.matching.lint import lint
from triage.model.signature import Pattern


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only the signatures of the test are there; causes and sources are the real ones."""
    monkeypatch.setattr("triage.content.root", lambda: tmp_path)
    return tmp_path


def faults(folder: Path, old: str, new: str) -> list[str]:
    """What lint says of the minimal signature with one part changed, as `line: what`."""
    assert old in MINIMAL
    path = write(folder, "gpu/lost", MINIMAL.replace(old, new))
    return [fault.removeprefix(f"{path}:") for fault in lint()]


def test_the_minimal_signature_is_well(folder: Path) -> None:
    assert faults(folder, "id: gpu/lost", "id: gpu/lost") == []


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("id: gpu/lost", "id: gpu/gone", "1: id 'gpu/gone' must be the path below signatures/, 'gpu/lost'"),
        ("layer: gpu", "layer: gpus", "4: unknown layer 'gpus' (did you mean gpu?)"),
        ("layer: gpu", "layer: torch", "4: layer 'torch' must be the folder, 'gpu'"),
        ("cause: gpu/fallen-off-bus", "cause: gpu/fallen-of-bus", "7: unknown cause 'gpu/fallen-of-bus' (did you mean"),
        ("cause: gpu/fallen-off-bus\n", "", "5: a root-cause names its `cause`"),
        ("role: root-cause", "role: context", "7: context has no cause"),
        ("role: root-cause", "role: roots", "5: Invalid enum value 'roots'"),
        ("layer: gpu", "layer: gpu\nmeaning: x", "contains unknown field"),
        ("layer: gpu", "layer: gpu\nlayer: gpu", "5: key 'layer' stands twice"),
        ("[kernel_log]", "[kernel]", "8: unknown source 'kernel' (did you mean kernel_log?)"),
        ("(?P<gpu>", "(?P<card>", "fields: group 'card' has no field"),
        ("(?P<gpu>", "(?P<card>", "12: field 'gpu' is no named group"),
        (r"card (?P<gpu>\d+) is lost", r"card (?P<gpu>\d+ is lost", "10: no regex: missing )"),
        (r"card (?P<gpu>\d+) is lost", r"(?P<gpu>\d+) is", "10: the longest text that must stand"),
        (r"card (?P<gpu>\d+) is lost", r"^kernel: card (?P<gpu>\d+)", "10: starts with an anchor"),
        (r"card (?P<gpu>\d+) is lost", r"k.*card.*(?P<gpu>\d+) is lost", "10: more than one open repeat"),
        (r"is lost'", r"is lost(?! now)'", "10: hyperscan takes it only as a prefilter, if at all"),
        (r"\d+) is lost'", r"\d+) is lost'" + "\n    prefilter: it sounded good", "10: hyperscan takes it fully"),
        ("is lost'\nfields", "is lost'\n  - regex: 'card (?P<gpu>x) gone'\nfields", "11: no example matches this"),
        ("{gpu: '3'}", "{gpu: '4'}", "19: wanted 4, found 3"),
        ("text: 'kernel: card 3 is lost'", "text: 'kernel: card is lost'", "18: does not match: kernel: card is lost"),
        ("card 3 is fine", "card 3 is lost", "21: matches: card 3 is lost"),
        ("    - {text: 'card 3 is fine', why: not lost}\n", "    []\n", "needs at least one example"),
        (r"card (?P<gpu>\d+)", r"card (?:(?P<gpu>\d\d)|\d+)", "gives no 'gpu': the field has to be `optional: true`"),
        ("next_check: {command: lspci, tells: whether it is there}\n", "", "5: needs `next_check`"),
        ("layer: gpu", "layer: gpu\nplaybook: gpu-lost", "5: unknown playbook 'gpu-lost'"),
        ("layer: gpu", "layer: gpu\nsuppresses: [gpu/lots]", "5: unknown signature 'gpu/lots' (did you mean"),
        ("layer: gpu", "layer: gpu\noverlaps: [gpu/lost]", "5: 'gpu/lost' is the signature itself"),
        ("layer: gpu", "layer: gpu\nconfused_with: [{id: gpu/x, tell: y}]", "5: unknown signature 'gpu/x'"),
        ("layer: gpu", "layer: gpu\ncovers: [a, a]", "5: 'a' stands twice"),
        ("layer: gpu", "layer: &x gpu\nvendor_action: *x", "aliases"),
        ("layer: gpu", "layer: [gpu", "expected"),
    ],
)  # fmt: skip
def test_faults(folder: Path, old: str, new: str, wanted: str) -> None:
    found = faults(folder, old, new)
    assert any(wanted.removeprefix("fields: ") in fault for fault in found), found


def test_all_faults_of_a_file_come_at_once_in_order(folder: Path) -> None:
    text = (
        MINIMAL.replace("cause: gpu/fallen-off-bus", "cause: gpu/x")
        .replace("[kernel_log]", "[y]")
        .replace("id: gpu", "id: z")
    )
    path = write(folder, "gpu/lost", text)
    assert [int(fault.removeprefix(f"{path}:").partition(":")[0]) for fault in lint()] == [1, 7, 8]


def test_overlaps_have_to_be_declared(folder: Path) -> None:
    write(folder, "gpu/lost")
    other = (
        MINIMAL.replace("gpu/lost", "gpu/seen")
        .replace(r"(?P<gpu>\d+) is lost", r"(?P<gpu>\d+) is l")
        .replace("kernel: card 3 is lost", "kernel: card 3 is late")
    )
    path = write(folder, "gpu/seen", other)
    (fault,) = lint()
    assert fault.endswith("gpu/seen matches this example too: declare it in `overlaps` or `suppresses` of either")
    (fault,) = lint([path])
    assert f"{path}:10: matches examples.matches[0] of gpu/lost too" in fault or f"{path}:9:" in fault
    write(folder, "gpu/lost", MINIMAL.replace("layer: gpu", "layer: gpu\nsuppresses: [gpu/seen]"))
    assert lint() == []


def test_signatures_that_suppress_each_other(folder: Path) -> None:
    for name, other in (("gpu/lost", "gpu/gone"), ("gpu/gone", "gpu/lost")):
        write(folder, name, MINIMAL.replace("id: gpu/lost", f"id: {name}\nsuppresses: [{other}]"))
    assert [fault.partition(": ")[2] for fault in lint()] == [
        "'gpu/lost' suppresses this one too: neither would be seen",
        "'gpu/gone' suppresses this one too: neither would be seen",
    ]


def test_only_what_lies_below_the_paths_is_told(folder: Path) -> None:
    write(folder, "gpu/lost", MINIMAL.replace("layer: gpu", "layer: x"))
    other = write(folder, "nccl/lost", MINIMAL.replace("gpu/lost", "nccl/lost").replace("lost", "late"))
    assert all(str(other) in fault for fault in lint([other.parent]))
    assert lint([other.parent])


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        (r"(?:\w+\s?)+ is lost", "the card of node seventeen is lost"),
        (r"card (?:a|aa)+b is lost", "card aaaab is lost"),
        (r"\S+ \S* ?\S* ?\S*\S*\S*: lost", "kernel: x: lost"),
    ],
)
@pytest.mark.long
def test_regexes_that_take_too_long(expression: str, line: str) -> None:
    assert "super-linear" in (lint_regex.slowness(expression, (line,)) or "")


@pytest.mark.parametrize(
    "expression",
    [r"card (?P<gpu>\d+) is lost", r"card[^\n]{0,200}? is lost", r"(?i)card (?:\d+|x{1,8}) is (?:lost|gone)"],
)
def test_regexes_that_are_well(expression: str) -> None:
    assert lint_regex.slowness(expression, ("kernel: card 3 is lost",)) is None


def test_a_regex_that_hyperscan_refuses_even_as_a_prefilter() -> None:
    pattern = Pattern(regex=r"(?:card is lost)?", prefilter="because")
    found = [what for _, what in lint_regex.faults(pattern, [], lint_regex.refusals([pattern]))]
    assert any("even as a prefilter" in what for what in found)


def test_each_alternative_is_measured_on_an_example_of_its_own() -> None:
    pattern = Pattern(regex=r"(?P<port>[\w.-]+): cable pulled")
    examples = ["the card is lost", "eth0: cable pulled"]
    assert [key for key, what in lint_regex.faults(pattern, examples, {}) if "super-linear" in what] == ["regex"]


def test_what_the_message_must_hold_is_measured_too() -> None:
    pattern = Pattern(regex=r"card is lost", message=r"reason:\s*\n\s*(?:\s*\w+\s*)*\n\s*code 7")
    body = "card is lost\nreason:\n  heat\n  code 7"
    found = lint_regex.faults(pattern, body.splitlines(), {}, [body])
    assert [key for key, what in found if "super-linear" in what] == ["message"]
