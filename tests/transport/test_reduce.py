"""`triage collect --reduce`: a bundle a fraction of the size, the same answer, and no secret in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
from bundle.secrets import made
from transport.collected import Bundle, collect, explained, fault

from triage.model.manifest import Manifest
from triage.transport.collecting import LOG_BYTES
from triage.transport.reducing import Reducing

CALM = "2026-11-30 00:00:%02d,013 INFO:data: shard %06d was read in 1.4s without retries\n"


def test_a_reduced_bundle(tmp_path: Path) -> None:
    calm = "".join(CALM % (at % 60, at) for at in range(40_000))
    secret = made("k", 24)
    log = calm + f"export WANDB_API_KEY={secret}\n" + fault() + calm
    (tmp_path / "node.log").write_text(log)
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(log.encode()))
    (tmp_path / "records.jsonl").write_text("".join(json.dumps({"step": at, "rank": 0}) + "\n" for at in range(9000)))
    pattern = ("--only", "job_logs", "--include", f"{tmp_path}/*.log*", "--include", f"{tmp_path}/*.jsonl")
    code, out, _ = collect(tmp_path, *pattern, "--reduce")
    assert code == 0, out
    bundle = Bundle(tmp_path / "b.tar.zst")
    manifest = msgspec.convert(bundle.manifest, Manifest)
    rows = {row.path.rsplit("/", 1)[-1]: row for row in manifest.files}
    for name in ("node.log", "old.log"):
        told = rows[name].reduced
        assert told is not None
        assert (told.lines, told.first) == (log.count("\n"), "2026-11-30 00:00:00,013")
        assert rows[name].bytes < len(log) // 40
    assert rows["node.log"].reduced.bytes == len(log)  # type: ignore[union-attr]
    assert rows["records.jsonl"].reduced is None
    assert not [path for path, data in bundle.files.items() if secret.encode() in data]
    assert [gap.why for gap in bundle.gaps if "stayed on the nodes" in gap.what] == ["truncated"]
    report = explained(tmp_path)
    cited = report["hypotheses"][0]["evidence"][0]
    assert cited["text"] in log.split("\n")[cited["line"] - 1]


def test_what_the_launcher_reads_itself_is_reduced_too(tmp_path: Path) -> None:
    secret, calm = made("k", 24), "".join(CALM % (at % 60, at) for at in range(20_000))
    log = calm + f"export WANDB_API_KEY={secret}\n" + fault() + calm
    (tmp_path / "slurm.out").write_text(log)
    (tmp_path / "small.out").write_text(calm[:1000])
    request = {"reduce": LOG_BYTES, "key": "07" * 32, "words": {}, "hosts": False}
    with Reducing(request, 30) as reducing:
        found = reducing.lines(tmp_path / "slurm.out")
        assert reducing.lines(tmp_path / "small.out") is None
        assert reducing.lines(tmp_path / "absent.out") is None
        assert reducing.lines(tmp_path / "slurm.out") == found
    assert found is not None
    assert found[0].startswith(b"triage.reduced/1\t40005\t%d\t" % len(log))
    assert found[1]["reduced"]["lines"] == 40_005
    assert b"fallen off the bus" in found[0]
    assert secret.encode() not in found[0]
    assert reducing.lines(tmp_path / "slurm.out") is None, "once it has ended, logs are copied as they are"
