"""What a node leaves out of a log changes neither the answer nor a line's number, and gives no secret away."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import regex
from bundle.secrets import made

from collectors.reducing import node, records, reduce_tree, reduced
from triage import explain
from triage.matching.loading import catalogue
from triage.model.report import Report
from triage.parsers import parser, recognise
from triage.transport import packing

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LARGE = {
    "stalled-replica",
    "bad-batch",
    "gpu-off-the-bus",
    "nfs-stall",
    "skewed-clock",
}  # benchmarks/reduce.py has them
INCIDENTS = sorted(path for path in (FIXTURES / "incidents").iterdir() if path.name not in LARGE)
CALM = b"2026-11-30 00:00:%02d,013 INFO:data: shard %06d was read in 1.4s without retries\n"
FAULT = b"[  812.2] NVRM: Xid (PCI:0000:9b:00): 79, pid=4021, GPU has fallen off the bus.\n"


def calm(count: int, first: int = 0) -> bytes:
    return b"".join(CALM % (at % 60, at) for at in range(first, first + count))


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are reduced, too, and little is kept of their ends."""
    monkeypatch.setattr(node(), "SMALL", 0)
    monkeypatch.setattr(node()._picking, "HEAD", 10)
    monkeypatch.setattr(node()._picking, "TAIL", 20)


def test_every_example_of_every_signature_is_sent() -> None:
    known = [each for each in catalogue().values() if each.match]
    blocks = [(each, example.text) for each in known for example in each.examples.matches]
    data, wanted = b"", []
    parts = [calm(100)]
    number = 101
    for signature, text in blocks:
        lines = text.split("\n")
        hits = [at for at, line in enumerate(lines) if _matches(signature, line)]
        wanted += [(signature.id, number + at, lines[at]) for at in hits]
        parts += [text.encode() + b"\n", calm(3)]
        number += len(lines) + 3
    data = b"".join([*parts, calm(400)])
    found = reduced(data, budget=64 << 20)
    assert found is not None
    kept = records(found[0])
    assert len(wanted) > 900
    assert [one for one in wanted if not kept.get(one[1], b"").startswith(one[2].encode()[:500])] == []
    assert len(kept) < found[1]["reduced"]["lines"] == data.count(b"\n")


def _matches(signature: Any, line: str) -> bool:
    return any(regex.search(pattern.regex, line) for pattern in signature.match) and "\r" not in line


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda path: path.name)
def test_the_answer_stays(incident: Path, tmp_path: Path, strict: None) -> None:
    whole = msgspec.json.decode((incident / "report.json").read_bytes(), type=Report)
    before, after = reduce_tree(incident / "evidence", tmp_path / "evidence")
    told = explain(tmp_path / "evidence")
    assert told.verdict == whole.verdict
    assert [each.cause for each in told.hypotheses[:1]] == [each.cause for each in whole.hypotheses[:1]]
    for one, other in zip(told.hypotheses[:1], whole.hypotheses[:1], strict=True):
        assert [msgspec.structs.replace(each, why="") for each in one.culprits] == [
            msgspec.structs.replace(each, why="") for each in other.culprits
        ]
        assert abs(one.confidence - other.confidence) <= 0.1
        assert one.evidence[0] in other.evidence, "the same line of the same file"
    if after < before:
        assert [gap.why for gap in told.gaps if "stayed on the nodes" in gap.what] == ["truncated"]


def test_a_fault_in_the_middle_is_kept_with_its_number() -> None:
    data = calm(4000) + FAULT + calm(4000, 4000)
    found = reduced(data)
    assert found is not None
    assert records(found[0])[4001] == FAULT.rstrip()
    assert len(found[0]) < len(data) // 10
    assert (
        found[1]["reduced"].items() >= {"lines": 8001, "bytes": len(data), "first": "2026-11-30 00:00:00,013"}.items()
    )
    assert found[0].split(b"\n")[0].split(b"\t")[:4] == [
        b"triage.reduced/1", b"8001", b"%d" % len(data), b"%d" % found[1]["reduced"]["kept"],
    ]  # fmt: skip


def test_numbers_are_those_of_the_file_on_disk() -> None:
    bar = b"\r".join(b"%3d%%|##   | %d/900" % (at, at) for at in range(900))
    colour = b"\x1b[31m" + FAULT[:20] + b"\x1b[0m" + FAULT[20:]
    data = calm(3000).replace(b"\n", b"\r\n") + bar + b"\n" + calm(3000) + colour + calm(3000) + FAULT[:-1]
    found = reduced(data)
    assert found is not None
    kept = records(found[0])
    assert kept[6002] == colour.rstrip()
    assert kept[9003] == FAULT.rstrip()
    assert found[1]["reduced"]["lines"] == 9003


def test_a_long_line_is_cut_around_what_matched() -> None:
    data = calm(1000) + b"x " * 20_000 + FAULT + calm(1000)
    found = reduced(data)
    assert found is not None
    line = records(found[0])[1001]
    assert FAULT.rstrip()[8:60] in line
    assert len(line) <= node().LINE


def test_what_is_read_as_a_whole_stays_whole() -> None:
    heads = {path: path.read_bytes()[:65536] for path in FIXTURES.glob("parsers/*/**/*") if path.is_file()}
    sources = {path: recognise(head, head)[:1] for path, head in heads.items()}
    documents = [path for path, best in sources.items() if best and not hasattr(parser(best[0]), "parse")]
    assert len(documents) >= 40
    assert not [path for path in documents if not node()._documents.stays_whole(heads[path])]


def test_logs_are_no_documents() -> None:
    sources = ("kernel_log", "nccl_log", "torch_log", "training_log", "fabric_manager")
    logs = [path for source in sources for path in (FIXTURES / "quiet" / source).glob("**/*") if path.is_file()]
    assert len(logs) > 5
    assert not [path for path in logs if node()._documents.stays_whole(path.read_bytes()[:65536])]


def test_a_key_whose_beginning_is_left_out_never_leaves() -> None:
    body = [made("MII", 64) for _ in range(30)]
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]).encode() + b"\n"
    pair = b'["prog", "--api-key",\n"' + made("k", 24).encode() + b'"]\n'
    data = calm(2000) + key + FAULT + calm(2000) + pair + FAULT + calm(2000)
    found = reduced(data)
    assert found is not None
    assert FAULT.rstrip() in records(found[0]).values()
    assert not [line for line in body if line.encode() in found[0]]
    assert made("k", 24).encode() not in found[0]


def test_a_log_too_long_for_the_time_is_looked_at_from_both_ends() -> None:
    data = calm(20_000) + FAULT + calm(20_000)
    found = reduced(data, seconds=1_000_000 / node().RATE)
    assert found is not None
    kept = records(found[0])
    assert min(kept) == 1
    assert found[1]["truncated"] is True
    assert found[1]["reduced"]["sha256"] is None
    assert max(kept) == 40_001, "what is not looked at is counted all the same"


def test_a_storm_is_sampled() -> None:
    data = b"".join(FAULT.replace(b"0000:9b", b"%04x:9b" % (at % 8)) for at in range(5_000))
    found = reduced(calm(2000) + data + calm(2000))
    assert found is not None
    assert len(found[0]) < 3 * node().BUDGET
    cards = {line.split(b"PCI:")[1][:4] for line in records(found[0]).values() if b"Xid" in line}
    assert cards == {b"%04x" % at for at in range(8)}


def test_no_line_can_hold_a_node_up() -> None:
    slow = []
    for _, needles, text, _, _ in packing.reduction()["patterns"]:
        line = max(needles, key=len).encode() + b" "
        started = time.process_time()
        re.compile(text.encode(), re.MULTILINE).search(line * (node().WINDOW // len(line)))
        slow += [text] if time.process_time() - started > 0.25 else []
    assert not slow


def test_a_match_far_out_on_a_long_line_is_found() -> None:
    data = calm(1000) + b"y " * 30_000 + FAULT + calm(1000)
    found = reduced(data)
    assert found is not None
    assert FAULT.rstrip()[8:60] in records(found[0])[1001]
