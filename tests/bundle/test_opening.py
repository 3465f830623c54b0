"""Folders, files, archives and standard input become evidence; nothing is written, and trouble becomes a gap."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from triage.bundle.limits import Gaps, Limits
from triage.bundle.opening import Evidence, open_evidence
from triage.errors import BundleError

FILES = {
    "job/slurm/slurm-77.out": b"first\nsecond\n",
    "nodes/node017/kernel_log/dmesg.txt": b"[    1.0] NVRM: loading\n",
    "nodes/node018/kernel_log/dmesg.txt": b"[    2.0] NVRM: loading\n",
}


def text(evidence: Evidence, path: str) -> bytes:
    file = next(file for file in evidence.files if file.path == path)
    return b"".join(chunk.data for chunk in evidence.chunks(file))


def paths(evidence: Evidence) -> list[str]:
    return [file.path for file in evidence.files]


def reasons(evidence: Evidence) -> list[tuple[str, str | None]]:
    return [(gap.why, gap.file) for gap in evidence.gaps]


def tar(files: dict[str, bytes], mode: str = "w", format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "tar": lambda: tar(FILES),
    "tar, old form": lambda: tar(FILES, format=tarfile.USTAR_FORMAT),
    "tar, GNU form": lambda: tar(FILES, format=tarfile.GNU_FORMAT),
    "tar.gz": lambda: tar(FILES, "w:gz"),
    "tar.xz": lambda: tar(FILES, "w:xz"),
    "tar.bz2": lambda: tar(FILES, "w:bz2"),
    "tar.zst": lambda: zstandard.compress(tar(FILES)),
    "zip": lambda: zipped(FILES),
}


@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("memory", [64 << 20, 1])
def test_archive_of_every_kind_reads_the_same_whatever_its_name(tmp_path: Path, kind: str, memory: int) -> None:
    (tmp_path / "bundle").write_bytes(ARCHIVES[kind]())
    with open_evidence([str(tmp_path / "bundle")], limits=Limits(memory=memory)) as evidence:
        assert paths(evidence) == sorted(FILES)
        assert {path: text(evidence, path) for path in FILES} == FILES
        assert evidence.gaps == []
        assert [file.node for file in evidence.files] == [None, "node017", "node018"]


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archive_on_standard_input(kind: str) -> None:
    with open_evidence(["-"], stdin=io.BytesIO(ARCHIVES[kind]())) as evidence:
        assert paths(evidence) == sorted(FILES)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lzma.compress, bz2.compress])
def test_compressed_file_alone(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "nvidia-bug-report.log.gz").write_bytes(pack(b"one\ntwo\n"))
    with open_evidence([str(tmp_path / "nvidia-bug-report.log.gz")]) as evidence:
        assert paths(evidence) == ["nvidia-bug-report.log.gz"]
        assert text(evidence, "nvidia-bug-report.log.gz") == b"one\ntwo\n"
        assert evidence.read(evidence.files[0]) == b"one\ntwo\n"


def test_compressed_twice_and_in_several_parts(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(gzip.compress(zstandard.compress(b"twice\n")))
    (tmp_path / "b.log").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    (tmp_path / "c.log").write_bytes(zstandard.compress(b"one\n") + zstandard.compress(b"two\n"))
    (tmp_path / "d.log").write_bytes(lzma.compress(b"one\n") + b"\0\0\0\0" + lzma.compress(b"two\n"))
    with open_evidence([str(tmp_path)]) as evidence:
        assert [text(evidence, path) for path in paths(evidence)] == [b"twice\n", *[b"one\ntwo\n"] * 3]
        assert evidence.gaps == []


def test_archive_within_an_archive_within_a_folder(tmp_path: Path) -> None:
    inner = tar({"var/log/messages.gz": gzip.compress(b"line\n")}, "w:gz")
    (tmp_path / "outer.tar").write_bytes(tar({"report.tar.gz": inner}))
    with open_evidence([str(tmp_path)]) as evidence:
        assert paths(evidence) == ["outer.tar/report.tar.gz/var/log/messages.gz"]
        assert text(evidence, paths(evidence)[0]) == b"line\n"


def test_standard_input_as_text() -> None:
    with open_evidence(["-"], stdin=io.BytesIO(b"RuntimeError: x\n")) as evidence:
        assert paths(evidence) == ["<stdin>"]
        assert text(evidence, "<stdin>") == b"RuntimeError: x\n"


def test_pipe_named_as_a_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "63")
    writer = threading.Thread(target=lambda: (tmp_path / "63").write_bytes(b"through a pipe\n"))
    writer.start()
    with open_evidence([str(tmp_path / "63")]) as evidence:
        assert text(evidence, "63") == b"through a pipe\n"
    writer.join()


def test_folder_is_sorted_and_its_name_tells_nothing(tmp_path: Path) -> None:
    for name in ("b.log", "a/z.log", "a/b.log", "a.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x\n")
    with open_evidence([str(tmp_path)]) as evidence:
        assert paths(evidence) == ["a.log", "a/b.log", "a/z.log", "b.log"]


def test_several_paths_keep_names_that_are_unique(tmp_path: Path) -> None:
    for name in ("one/train.log", "two/train.log", "dmesg.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x\n")
    given = [str(tmp_path / name) for name in ("two/train.log", "one/train.log", "dmesg.txt", "one/train.log")]
    with open_evidence(given) as evidence:
        assert paths(evidence) == ["dmesg.txt", "one/train.log", "two/train.log"]
    with open_evidence([str(tmp_path / "one"), str(tmp_path / "dmesg.txt")]) as evidence:
        assert paths(evidence) == ["dmesg.txt", "one/train.log"]
    with open_evidence([str(tmp_path), str(tmp_path / "dmesg.txt")]) as evidence:
        assert paths(evidence) == ["dmesg.txt", "one/train.log", "two/train.log"]


def test_far_apart_paths_show_no_absolute_path(tmp_path: Path) -> None:
    far = tmp_path / "a/b/c/d"
    far.mkdir(parents=True)
    (far / "x.log").write_bytes(b"x\n")
    (tmp_path / "dmesg.txt").write_bytes(b"x\n")
    with open_evidence([str(far / "x.log"), str(tmp_path / "dmesg.txt")]) as evidence:
        assert paths(evidence) == ["dmesg.txt", "x.log"]


@pytest.mark.parametrize("given", [[], ["absent"], ["-", "absent"]])
def test_what_is_not_there_is_one_line(given: list[str]) -> None:
    with pytest.raises(BundleError) as error:
        open_evidence(given, stdin=io.BytesIO(b"x"))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"just words\n" * 99, gzip.compress(b"just words"), tar(FILES, "w:gz")[:30]],
    ids=["empty", "words", "gz", "cut"],
)
def test_no_archive_under_the_name_of_one(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bundle.tar.gz").write_bytes(data)
    with pytest.raises(BundleError, match=r"^bundle\.tar\.gz: "):
        open_evidence([str(tmp_path / "bundle.tar.gz")])


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, zstandard.compress, lzma.compress])
def test_archive_that_is_cut_keeps_what_came(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    big = {"a.log": os.urandom(99).hex().encode() * 99 + b"\n", "b.log": os.urandom(300_000).hex().encode()}
    whole = pack(tar(big))
    (tmp_path / "x.tar").write_bytes(whole[: int(len(whole) * 0.7)])
    with open_evidence([str(tmp_path / "x.tar")]) as evidence:
        assert text(evidence, "a.log") == big["a.log"]
        assert big["b.log"].startswith(text(evidence, "b.log"))
        assert len(text(evidence, "b.log")) > 200_000
        assert [file.truncated for file in evidence.files] == [False, True]
        assert {why for why, _ in reasons(evidence)} == {"truncated"}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lzma.compress, bz2.compress])
def test_compressed_file_that_is_cut_keeps_what_came(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = os.urandom(700_000).hex().encode()
    whole = pack(data)
    (tmp_path / "x.log").write_bytes(whole[: len(whole) * 9 // 10])
    with open_evidence([str(tmp_path / "x.log")]) as evidence:
        came = b"".join(chunk.data for chunk in evidence.chunks(evidence.files[0]))
        assert data.startswith(came.replace(b"\n", b""))
        assert len(came) > 400_000
        assert reasons(evidence) == [("truncated", "x.log")]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_that_is_cut_keeps_what_came(tmp_path: Path, method: int, streamed: bool) -> None:
    if streamed and method == zipfile.ZIP_STORED:
        pytest.skip("a stored member of unknown size has no end")
    big = {"a.log": os.urandom(5000).hex().encode(), "b.log": os.urandom(300_000).hex().encode()}
    out = io.BytesIO()
    if streamed:
        out.seekable = lambda: False  # type: ignore[method-assign]
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in big.items():
            archive.writestr(name, data)
    (tmp_path / "x.zip").write_bytes(out.getvalue()[: int(len(out.getvalue()) * 0.7)])
    with open_evidence([str(tmp_path / "x.zip")]) as evidence:
        assert text(evidence, "a.log") == big["a.log"]
        assert big["b.log"].startswith(text(evidence, "b.log"))
        assert len(text(evidence, "b.log")) > 300_000
        assert ("truncated", "x.zip") in reasons(evidence)


def test_damaged_header_in_the_middle_is_no_silent_end(tmp_path: Path) -> None:
    data = bytearray(tar({"a.log": b"x\n", "b.log": b"y\n"}))
    data[1024:1030] = b"noise!"
    (tmp_path / "x.tar").write_bytes(data)
    with open_evidence([str(tmp_path / "x.tar")]) as evidence:
        assert paths(evidence) == ["a.log"]
        assert reasons(evidence) == [("truncated", "x.tar")]


def test_damaged_archive_in_a_folder_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(zipped(FILES)[:40])
    (tmp_path / "good.log").write_bytes(b"x\n")
    with open_evidence([str(tmp_path)]) as evidence:
        assert "good.log" in paths(evidence)
        assert ("unparsable", "bad.zip") in reasons(evidence)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


HOSTILE = [
    member("../escape.log"), member("/etc/absolute.log"), member("a/../../b.log"), member("C:\\x.log"),
    member("soft", tarfile.SYMTYPE, "/etc/passwd"), member("hard", tarfile.LNKTYPE, "good.log"),
    member("device", tarfile.CHRTYPE), member("block", tarfile.BLKTYPE), member("pipe", tarfile.FIFOTYPE),
]  # fmt: skip


@pytest.mark.parametrize("info", HOSTILE, ids=lambda info: info.name)
def test_hostile_member_is_a_gap_and_the_rest_is_read(tmp_path: Path, info: tarfile.TarInfo) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.addfile(info)
        good = member("good.log")
        good.size = 2
        archive.addfile(good, io.BytesIO(b"x\n"))
    (tmp_path / "x.tgz").write_bytes(out.getvalue())
    with open_evidence([str(tmp_path / "x.tgz")]) as evidence:
        assert paths(evidence) == ["good.log"]
        assert [why for why, _ in reasons(evidence)] == ["denied"]
    assert [path.name for path in tmp_path.iterdir()] == ["x.tgz"]


def test_hostile_zip_members(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("../up.log", "x")
        archive.writestr("good.log", "x\n")
    with open_evidence([str(tmp_path / "x.zip")]) as evidence:
        assert paths(evidence) == ["good.log"]
        assert [why for why, _ in reasons(evidence)] == ["denied", "denied"]


def test_names_twice_names_huge_and_names_in_no_encoding(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", encoding="utf-8", errors="surrogateescape") as archive:
        for name in ("a.log", "a.log", "./b//c.log", "d" * 9000, "caf\udce9.log", "new\nline\x1b[31m.log"):
            info = member(name)
            info.size = 2
            archive.addfile(info, io.BytesIO(b"x\n"))
    (tmp_path / "x.tar").write_bytes(out.getvalue())
    with open_evidence([str(tmp_path / "x.tar")]) as evidence:
        names = paths(evidence)
    assert {"a.log", "a.log#2", "b/c.log", "caf\\xe9.log", "new\\x0aline\\x1b[31m.log"} < set(names)
    assert all(len(name) <= 1024 and name.isprintable() for name in names)
    assert len(set(names)) == 6


@pytest.mark.parametrize("kind", ["tar.gz", "zip", "gz", "zst"])
def test_bomb_by_ratio_is_read_up_to_the_limit(tmp_path: Path, kind: str) -> None:
    zeros = b"x\n" * 4_000_000
    pack = {
        "tar.gz": lambda: tar({"big.log": zeros}, "w:gz"),
        "zip": lambda: zipped({"big.log": zeros}),
        "gz": lambda: gzip.compress(zeros),
        "zst": lambda: zstandard.compress(zeros),
    }[kind]
    (tmp_path / "big.log").write_bytes(pack())
    with open_evidence([str(tmp_path / "big.log")], limits=Limits(ratio=3, ratio_from=1 << 20)) as evidence:
        assert 500_000 < sum(len(chunk.data) for chunk in evidence.chunks(evidence.files[0])) < 3 << 20
        assert "truncated" in {why for why, _ in reasons(evidence)}
        assert evidence.files[0].truncated


def test_limits_on_size_total_and_count(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(tar({f"{n}.log": b"y" * 1000 for n in range(9)}, "w:gz"))
    given = [str(tmp_path / "x.tgz")]
    with open_evidence(given, limits=Limits(members=4)) as evidence:
        assert paths(evidence) == ["0.log", "1.log", "2.log", "3.log"]
        assert [why for why, _ in reasons(evidence)] == ["truncated"]
    with open_evidence(given, limits=Limits(member=600)) as evidence:
        assert [len(text(evidence, path)) for path in paths(evidence)] == [600] * 9
    with open_evidence(given, limits=Limits(total=20_480, member=2500)) as evidence:
        assert len(evidence.files) == 9
    with open_evidence(given, limits=Limits(total=5000)) as evidence:
        assert 1 <= len(evidence.files) < 5
        assert "truncated" in {why for why, _ in reasons(evidence)}


def test_limit_on_nesting(tmp_path: Path) -> None:
    data = b"deep\n"
    for depth in range(9):
        data = tar({f"level{depth}.tar": data})
    (tmp_path / "x.tar").write_bytes(data)
    with open_evidence([str(tmp_path / "x.tar")]) as evidence:
        assert evidence.files == ()
        assert [why for why, _ in reasons(evidence)] == ["truncated"]


def test_extended_header_that_wants_all_memory(tmp_path: Path) -> None:
    info = member("x", tarfile.XHDTYPE)
    info.size = 7 << 30
    (tmp_path / "x.tar").write_bytes(tar({"a.log": b"x\n"})[:1024] + info.tobuf(tarfile.USTAR_FORMAT) + b"9" * 99_999)
    with open_evidence([str(tmp_path / "x.tar")]) as evidence:
        assert paths(evidence) == ["a.log"]
        assert [why for why, _ in reasons(evidence)] == ["truncated"]


def test_links_loops_pipes_and_files_we_may_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.log").write_bytes(b"x\n")
    (root / "secret.log").write_bytes(b"x\n")
    (root / "loop").symlink_to(root)
    (root / "sub" / "same.log").symlink_to(root / "a.log")
    (root / "broken.log").symlink_to("nowhere")
    (root / "out.log").symlink_to("/etc/hostname")
    os.mkfifo(root / "pipe")
    really = os.open

    def refuse(path: str, *rest: int) -> int:
        if str(path).endswith("secret.log"):
            raise PermissionError(13, "Permission denied")
        return really(path, *rest)

    monkeypatch.setattr("triage.bundle.blobs.os.open", refuse)
    with open_evidence([str(root)]) as evidence:
        assert paths(evidence) == ["a.log"]
        assert sorted(reasons(evidence)) == [("denied", "out.log"), ("denied", "pipe"), ("denied", "secret.log")]


def test_empty_folder_and_empty_file(tmp_path: Path) -> None:
    with open_evidence([str(tmp_path)]) as evidence:
        assert (evidence.files, reasons(evidence)) == ((), [("absent", None)])
    (tmp_path / "a.log").touch()
    with open_evidence([str(tmp_path)]) as evidence:
        assert paths(evidence) == ["a.log"]
        assert reasons(evidence) == [("absent", "a.log")]
        assert list(evidence.chunks(evidence.files[0])) == []


BINARY = {
    "pickle": b"\x80\x02}q\0.", "ELF": b"\x7fELF\2\1\1", "PNG": b"\x89PNG\r\n\x1a\n123",
    "noise": bytes(range(256)) * 99,
    "checkpoint": zipped({"archive/data.pkl": b"x", "archive/version": b"3"}), "numbers": bytes([1, 0, 0, 0]) * 999,
}  # fmt: skip
TEXT = {
    "plain": b"hello\n", "UTF-8": "│█▌ 50%\n".encode() * 99, "latin-1": "Gerät fehlt\n".encode("latin-1"),
    "UTF-16": "hello\r\n".encode("utf-16"), "hole": b"\0" * 70_000 + b"line\n", "crash": b"line\n" + b"\0" * 70_000,
    "colours": b"\x1b[31mred\x1b[0m\n", "JSON": b'{"a": 1}', "environ": b"PATH=/bin\0NCCL_DEBUG=INFO\0",
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "is_text"), [*((d, False) for d in BINARY.values()), *((d, True) for d in TEXT.values())]
)
def test_text_or_binary_by_content(tmp_path: Path, data: bytes, is_text: bool) -> None:
    (tmp_path / "x").write_bytes(data)
    with open_evidence([str(tmp_path)]) as evidence:
        assert [file.text for file in evidence.files] == [is_text]
        assert reasons(evidence) == ([] if is_text else [("unparsable", "x")])
        if not is_text:
            assert list(evidence.chunks(evidence.files[0])) == []


def test_recognition_sees_head_and_tail_decompressed_and_decoded(tmp_path: Path) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def recognise(head: bytes, tail: bytes) -> tuple[str, ...]:
        seen.append((head, tail))
        return ("kernel_log",)

    body = b"head\n" + b"x" * 200_000 + b"\ntail\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(body))
    (tmp_path / "b.log").write_bytes(body.decode().encode("utf-16"))
    with open_evidence([str(tmp_path)], recognise=recognise) as evidence:
        assert {file.sources for file in evidence.files} == {("kernel_log",)}
    for head, tail in seen:
        assert head.removeprefix(b"\xef\xbb\xbf").startswith(b"head\n")
        assert tail.endswith(b"\ntail\n")
        assert max(len(head), len(tail)) <= 65_540


def test_scan_by_several_threads(tmp_path: Path) -> None:
    lines = b"".join(b"%07d a line of a log\n" % n for n in range(300_000))
    (tmp_path / "x.tar.zst").write_bytes(zstandard.compress(tar({"a.log": lines, "b.log.gz": gzip.compress(lines)})))
    with open_evidence([str(tmp_path / "x.tar.zst")]) as evidence:
        got: list[bytes] = []
        jobs = [
            threading.Thread(target=lambda file=file: got.append(text(evidence, file.path)))
            for file in evidence.files * 3
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        assert got == [lines] * 6


def _handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spools = tmp_path / "tmp"
    spools.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    before = _handles()
    (tmp_path / "x.tgz").write_bytes(tar({"a.log": os.urandom(1 << 20)}, "w:gz"))
    evidence = open_evidence([str(tmp_path / "x.tgz")], limits=Limits(memory=1))
    assert _handles() > before
    evidence.close()
    assert _handles() == before
    assert list(spools.iterdir()) == []


def test_read_is_capped_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"[1, 2, 3]")
    with open_evidence([str(tmp_path)]) as evidence:
        assert evidence.read(evidence.files[0], 4) == b"[1, "
        assert evidence.read(evidence.files[0], 4) == b"[1, "
        assert reasons(evidence) == [("truncated", "a.json")]


def test_file_that_goes_away_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x\n")
    with open_evidence([str(tmp_path)]) as evidence:
        (tmp_path / "a.log").unlink()
        assert list(evidence.chunks(evidence.files[0])) == []
        assert reasons(evidence) == [("not collected", "a.log")]


def test_many_gaps_of_a_kind_are_counted_not_listed() -> None:
    gaps = Gaps()
    for n in range(5000):
        gaps.add("links", "denied", f"{n}")
    assert len(gaps.found) == Gaps.LISTED + 1
