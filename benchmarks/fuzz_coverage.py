"""Fuzzing that is guided by coverage, for one target: atheris (Apache-2.0), which is not needed for anything else.

    pip install atheris && python -m benchmarks.fuzz_coverage TARGET [SECONDS]

Begins with the target's samples; what breaks it is written to ./crash-*, as libFuzzer does.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run until the seconds (60) are over. Exits with a line when atheris is not installed."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris (Linux, Python 3.11 to 3.13)")
    with atheris.instrument_imports(include=["triage"]):
        from tests.fuzz.targets import check, targets

        target = targets()[sys.argv[1]]  # imports the parsers, which are to be seen from within
        target.run(target.samples[0])
    seconds = sys.argv[2] if len(sys.argv) > 2 else "60"
    with tempfile.TemporaryDirectory() as corpus:
        for number, sample in enumerate(target.samples):
            (Path(corpus) / str(number)).write_bytes(sample)
        arguments = [sys.argv[0], corpus, f"-max_total_time={seconds}", "-max_len=8192"]
        atheris.Setup(arguments, lambda data: check(target, data) and None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
