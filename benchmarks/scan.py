"""How fast is a large log read, as a user would wait for it? Figures, not a test.

    python -m benchmarks.scan [--bytes 1000000000] [--rate 0.0001] [--log FILE] [--rg PATH] [--packed] [--storms]

Prints of whole, cold processes: `triage explain`, the matching engine alone (scan_lines.py), and ripgrep with every
signature's regex (`--no-unicode -c`), on one core and on all; MB/s, processor seconds, peak of anonymous memory and the
lines found, which have to be the same. `--packed` adds the log as .zst and .gz, `--storms` logs in which every line
matches or nearly matches. All figures are of this machine in this run: only their ratios mean something elsewhere.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.scan_log import write
from benchmarks.watching import EXPLAIN, Watched, watched
from triage.matching.loading import catalogue
from triage.matching.matcher import cores

CAT = ["sh", "-c", 'exec cat "$0" > /dev/null']
COUNT = [sys.executable, "-m", "benchmarks.scan_lines"]
STORM = 1_000_000_000  # bytes: what is read of a file whatever its size takes some seconds
_NAME = re.compile(r"\(\?P?<\w+>")


def main() -> None:
    """Make the log, measure, print."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        log = asked.log or Path(folder) / "job.out"
        if not log.exists():
            write(log, asked.bytes, asked.rate)
        if asked.rg:
            print(
                subprocess.run([asked.rg, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[
                    0
                ]
            )
        tell(log, measures(log, Path(folder), asked.rg))
        if asked.packed:
            tell(log, packed(log, Path(folder)))
        for path in storms(Path(folder)) if asked.storms else ():
            tell(path, [(path.stem, watched([*EXPLAIN, str(path)], _environment(Path(folder))))])


def tell(log: Path, rows: Iterator[tuple[str, Watched]] | list[tuple[str, Watched]]) -> None:
    """A line each; the rate is of the log's bytes on disk, unpacked."""
    size = log.stat().st_size
    subprocess.run(["cat", log], stdout=subprocess.DEVNULL, check=True)  # into the page cache
    for name, took in rows:
        count = took.output.strip()
        said = f"{count.decode()} lines" if count.isdigit() else ""
        print(f"{name:<26} {size / 1e6 / took.wall:7.0f} MB/s {took}  {said}", flush=True)


def measures(log: Path, folder: Path, rg: str | None) -> Iterator[tuple[str, Watched]]:
    """Each program, triage a second time with its cache filled."""
    environment = _environment(folder)
    one = environment | {"TRIAGE_CORES": "1"}
    yield "cat", watched([*CAT, str(log)], environment)
    yield "triage, first time", watched([*EXPLAIN, str(log)], environment)
    yield "triage", watched([*EXPLAIN, str(log)], environment)
    yield "triage, one core", watched([*EXPLAIN, str(log)], one)
    yield "engine", watched([*COUNT, str(log), str(cores())], environment)
    yield "engine, one core", watched([*COUNT, str(log), "1"], one)
    if rg:
        patterns = folder / "patterns"
        regexes = [pattern.regex for each in catalogue().values() for pattern in each.match]
        accepted = [regex for each in regexes if _accepts(rg, regex := _NAME.sub("(?:", each))]
        print(f"ripgrep takes {len(accepted)} of {len(regexes)} regexes", flush=True)
        patterns.write_text("\n".join(accepted) + "\n")
        yield "ripgrep", watched([rg, "--no-unicode", "-c", "-f", str(patterns), str(log)], environment)


def packed(log: Path, folder: Path) -> Iterator[tuple[str, Watched]]:
    """The same log compressed."""
    import zstandard

    small = folder / "job.out.zst"
    with log.open("rb") as source, small.open("wb") as target:
        zstandard.ZstdCompressor(level=3).copy_stream(source, target)
    yield "triage, .zst", watched([*EXPLAIN, str(small)], _environment(folder))
    small = folder / "job.out.gz"
    with log.open("rb") as source, gzip.open(small, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    yield "triage, .gz", watched([*EXPLAIN, str(small)], _environment(folder))


def storms(folder: Path) -> Iterator[Path]:
    """Logs of nothing but one fatal line, of examples of all signatures, and of lines that nearly match."""
    every = list(catalogue().values())
    like = [line for each in every for example in each.examples.matches for line in example.text.splitlines()]
    near = [line for each in every for example in each.examples.does_not_match for line in example.text.splitlines()]
    fatal = [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79 GiB"
    ]
    for name, lines in (("one line again and again", fatal), ("all examples", like), ("near misses", near)):
        block = ("\n".join(lines) + "\n").encode()
        path = folder / f"{name}.log"
        path.write_bytes(block * (STORM // len(block) + 1))
        yield path


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"XDG_CACHE_HOME": str(folder), "TRIAGE_HISTORY": "off"}


def _accepts(rg: str, regex: str) -> bool:
    done = subprocess.run([rg, "--no-unicode", "-c", "-e", regex, os.devnull], capture_output=True, check=False)
    if done.returncode not in (0, 1):
        print("ripgrep refuses", regex)
    return done.returncode in (0, 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="size of the log")
    parser.add_argument("--rate", type=float, default=1e-4, help="share of lines that are examples of signatures")
    parser.add_argument("--log", type=Path, help="a log to read instead; made there when it does not exist")
    parser.add_argument("--rg", metavar="PATH", default=shutil.which("rg"), help="ripgrep 14 or newer")
    parser.add_argument("--packed", action="store_true", help="the log as .zst and .gz, too")
    parser.add_argument("--storms", action="store_true", help="logs in which every line matches, or nearly")
    return parser.parse_args()


if __name__ == "__main__":
    main()
