"""`triage collect --reduce`: a bundle a fraction of the size, the same answer, and no secret in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
from bundle.secrets import made
from transport.collected import Bundle, collect, explained, fault

from triage.model.manifest import Manifest

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
