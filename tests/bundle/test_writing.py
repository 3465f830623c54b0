"""A bundle appears complete or not at all; what was there before is readable, whatever ended the work."""

from __future__ import annotations

import errno
import io
import json
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path
from typing import IO, Any

import pytest

from triage.bundle.opening import open_evidence
from triage.bundle.writing import DiskFullError, Tail, Writer, member, suffix_of
from triage.errors import BundleError


def write(output: Path) -> Writer:
    writer = Writer(output, {"job": "7"})
    kept = writer.add_bytes("nodes/node017/kernel_log/dmesg.txt", b"[1.0] NVRM: loading\n")
    writer.describe(kept, "kernel_log", "node017")
    writer.note([{"collector": "kernel_log", "node": "node017", "planned": True, "ran": True, "bytes": kept.size}])
    writer.note([{"collector": "nvml", "node": "node018", "planned": True, "ran": False, "timed_out": True}])
    writer.node({"node": "node017", "complete": True})
    return writer


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz", ".tgz"])
def test_reader_and_writer_agree(tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"b{suffix}"
    write(output).finish(complete=True)
    assert [path.name for path in tmp_path.iterdir()] == [output.name]
    with open_evidence([str(output)]) as evidence:
        assert evidence.manifest is not None
        assert evidence.manifest["schema"] == "triage.bundle/1"
        assert [(file.path, file.node) for file in evidence.files] == [
            ("nodes/node017/kernel_log/dmesg.txt", "node017")
        ]
        assert [(gap.what, gap.why, gap.node) for gap in evidence.gaps] == [("nvml", "timed out", "node018")]
        assert evidence.gaps[0].how == "triage collect --only nvml --nodelist node018"


def test_the_manifest_comes_first(tmp_path: Path) -> None:
    output = write(tmp_path / "b.tar.gz").finish(complete=True)
    with tarfile.open(output) as archive:
        assert archive.getnames()[0] == "manifest.json"
        assert {info.mode for info in archive} == {0o600}


def test_the_folder_is_readable_before_the_end(tmp_path: Path) -> None:
    writer = write(tmp_path / "b.tar.zst")
    with open_evidence([str(writer.folder)]) as evidence:
        assert evidence.manifest is not None
        assert evidence.manifest["complete"] is False
        assert len(evidence.files) == 1


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "b.tar.zst")
    with pytest.raises(BundleError, match="exists"):
        Writer(tmp_path / "b.tar.zst", {})
    Writer(tmp_path / "b.tar.zst", {}, force=True)
    with pytest.raises(BundleError):
        Writer(tmp_path / "no" / "such" / "b.tar.zst", {})


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x"])
def test_no_member_leads_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="path"):
        Writer(tmp_path / "b.tar.gz", {}).add_bytes(name, b"x")


class Full(io.BytesIO):
    """A source whose copy finds the disk full."""

    def read(self, size: int | None = -1) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_folder(tmp_path: Path) -> None:
    writer = write(tmp_path / "b.tar.zst")
    with pytest.raises(DiskFullError, match=r"b\.tar\.zst\.partial"):
        writer.add("nodes/node018/x/y", Full())
    assert writer.full
    with open_evidence([str(writer.folder)]) as evidence:
        assert any(file.node == "node017" for file in evidence.files)


def limited(folder: Path, size: int, script: str) -> subprocess.CompletedProcess[str]:
    """Run Python where no file may grow beyond `size` bytes: to whoever writes, that is a full disk."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    head = (
        f"from pathlib import Path; from triage.bundle.writing import *; output = Path({str(folder / 'b.tar.zst')!r})"
    )
    command = [sys.executable, "-c", "\n".join([limit, head, textwrap.dedent(script)])]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_manifest_of_a_full_disk_names_the_file_that_did_not_fit(tmp_path: Path) -> None:
    done = limited(tmp_path, 2 << 20, """
    writer = Writer(output, {})
    writer.describe(writer.add_bytes("nodes/node017/x/y.txt", b"whole\\n"), "x", "node017")
    try:
        writer.add_bytes("nodes/node018/job_logs/train.log", b"step 1 loss 2.5\\n" * 300000)
    except DiskFullError as error:
        print(error)
    """)  # fmt: skip
    assert f"what was collected is in {tmp_path}/b.tar.zst.partial" in done.stdout, done.stderr
    manifest = json.loads((tmp_path / "b.tar.zst.partial" / "manifest.json").read_text())
    rows = {row["path"]: row for row in manifest["files"]}
    assert rows["nodes/node017/x/y.txt"]["truncated"] is False
    cut = rows["nodes/node018/job_logs/train.log"]
    assert (cut["truncated"], cut["bytes"], cut["node"], cut["collector"]) == (True, 2 << 20, "node018", "job_logs")
    assert [path.name for path in (tmp_path / "b.tar.zst.partial").iterdir() if path.name.startswith(".")] == []


def test_nothing_is_left_where_nothing_fits(tmp_path: Path) -> None:
    done = limited(tmp_path, 1000, "Writer(output, {})")
    assert f"DiskFullError: {tmp_path}: File too large: name another place with -o" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_while_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path, file: IO[bytes], name: str) -> Any:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("triage.bundle.writing._pack", refuse)
    writer = write(tmp_path / "b.tar.zst")
    with pytest.raises(DiskFullError):
        writer.finish(complete=True)
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.zst.partial"]


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2])
def test_killed_while_writing(tmp_path: Path, delay: float) -> None:
    script = f"""
    from pathlib import Path
    from triage.bundle.writing import Writer
    print("ready", flush=True)
    writer = Writer(Path({str(tmp_path / "b.tar.gz")!r}), {{}})
    for number in range(3000):
        kept = writer.add_bytes(f"nodes/n{{number}}/x/log.txt", b"line of text\\n" * 200)
        writer.describe(kept, "x", f"n{{number}}")
        if number % 100 == 0:
            writer.renew()
    writer.finish(True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    folder = tmp_path / "b.tar.gz.partial"
    assert not (tmp_path / "b.tar.gz").exists()
    if (folder / "manifest.json").exists():
        json.loads((folder / "manifest.json").read_text())
        with open_evidence([str(folder)]) as evidence:
            assert evidence.manifest is not None


def test_names() -> None:
    assert member("0000:3b:00.0") == "0000-3b-00.0"
    assert member("..") == "unnamed"
    assert suffix_of("a.tar.zst") == ".tar.zst"
    assert suffix_of("a.zip") is None


def test_tails_keep_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %05d\n" % number for number in range(10000)))
    with Tail(log, 5000, head=1000) as tail:
        data = tail.read()
        assert tail.truncated
    lines = data.decode().splitlines()
    assert len(data) <= 5000
    assert (lines[0], lines[-1]) == ("line 00000", "line 09999")
    assert all(len(line) == 10 for line in lines)
    with Tail(log, 1 << 20) as tail:
        assert tail.read() == log.read_bytes()
