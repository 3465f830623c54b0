"""What parsers of documents could not read is told as gaps of the report."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

import triage
from triage.bundle.opening import Evidence, open_evidence
from triage.documents import structured
from triage.model.bundle import File
from triage.parsers import recognise

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "parsers"


def gaps(path: Path) -> list[tuple[str, str, str | None]]:
    return [(gap.what, gap.why, gap.file) for gap in triage.explain(str(path)).gaps]


def test_records_of_another_kind_are_counted() -> None:
    events = next((FIXTURES / "scalars").glob("events.out.*"))
    assert gaps(events) == [("scalars: 4 records of a kind that is not read", "unparsable", events.name)]


def test_a_dump_that_is_cut_is_told_with_the_reason(tmp_path: Path) -> None:
    dumps = [path for path in (FIXTURES / "flight_recorder").rglob("*") if path.is_file()]
    whole = next(path for path in sorted(dumps) if path.read_bytes()[:1] == b"\x80")
    (tmp_path / "fr_rank0").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (told,) = [gap for gap in gaps(tmp_path) if gap[0].startswith("fr: ")]
    assert told[1:] == ("unparsable", "fr_rank0")
    assert len(told[0]) > len("fr: ")


def test_what_was_read_whole_leaves_no_gap() -> None:
    assert gaps(FIXTURES / "step_times") == []


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_log_is_read_whole_only_when_it_begins_like_a_document(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = b'{"message": {"message": "RuntimeError: no", "extraInfo": {"py_callstack": "", "timestamp": "1790000000"}}}'
    (tmp_path / "error.json").write_bytes(pack(told))
    (tmp_path / "rank.log").write_bytes(pack(b"[rank0]: RuntimeError: CUDA error: no\nexitcode: 1\n" * 9))
    read: list[str] = []
    whole = Evidence.read

    def noted(self: Evidence, file: File, limit: int) -> bytes:
        read.append(file.path)
        return whole(self, file, limit)

    monkeypatch.setattr(Evidence, "read", noted)
    with open_evidence([str(tmp_path)], recognise=recognise) as evidence:
        assert all("torch_log" in file.sources for file in evidence.files)
        facts, gaps = structured(evidence)
    assert (read, gaps) == (["error.json"], [])
    assert {fact.value for fact in facts} == {"RuntimeError: no", 1790000000}
