"""Is confidence honest? Prints how often each band of confidence is right, over folders of incidents with known truth.

    calibration.py [CASES ...]      default: fixtures/incidents, and ../shared/cases when it is there

A case is a folder with truth.yaml (cause, acceptable, determinable) and evidence/. The second table leaves one area of
causes out at a time: the share that is right at 0.70 and more, measured on the other areas, is what triage would
promise for this area; beside it stands what the area then kept.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

BANDS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
SURE = 0.7
ROOT = Path(__file__).resolve().parents[1]


class Row(NamedTuple):
    """One incident's answer."""

    name: str
    area: str
    confidence: float
    right: bool
    named: bool


def answer(case: Path) -> Row:
    """Explain one incident and compare with its truth."""
    from triage import explain

    truth = yaml.safe_load((case / "truth.yaml").read_text())
    report = explain(case / "evidence")
    best = report.hypotheses[0] if report.hypotheses else None
    wanted = {truth["cause"], *(truth.get("acceptable") or [])}
    right = best.cause in wanted if best else truth["cause"] == "healthy"
    area = truth["cause"].split("/")[0]
    return Row(case.name, area, best.confidence if best else 0.0, right, best is not None)


def reliability(rows: list[Row]) -> None:
    """Right answers by band of confidence, with the 95 % interval of Wilson."""
    print(f"{'confidence':<14}{'incidents':>10}{'right':>8}{'share':>8}   95 % interval")
    for low, high in itertools.pairwise(BANDS):
        band = [row for row in rows if row.named and low <= row.confidence < high]
        if band:
            right = sum(row.right for row in band)
            lower, upper = wilson(right, len(band))
            counts = f"{len(band):>10}{right:>8}{right / len(band):>8.2f}"
            print(f"{low:.2f} to {min(high, 1):.2f}{counts}   {lower:.2f} to {upper:.2f}")


def wilson(right: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a share."""
    share, square = right / of, z * z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = z * ((share * (1 - share) + square / (4 * of)) / of) ** 0.5 / (1 + square / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def one_area_out(rows: list[Row]) -> None:
    """What the other areas promise for an area, and what it kept."""
    areas: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        areas[row.area].append(row)
    print(f"\n{'area left out':<16}{'sure':>6}{'right':>7}{'share':>8}{'promised by the others':>26}")
    for area, own in sorted(areas.items()):
        sure = [row for row in own if row.named and row.confidence >= SURE]
        others = [row for row in rows if row.area != area and row.named and row.confidence >= SURE]
        promised = sum(row.right for row in others) / max(1, len(others))
        kept = f"{sum(row.right for row in sure) / len(sure):.2f}" if sure else "-"
        print(f"{area:<16}{len(sure):>6}{sum(row.right for row in sure):>7}{kept:>8}{promised:>26.2f}")


def main() -> None:
    """Print both tables."""
    folders = [Path(each) for each in sys.argv[1:]] or [ROOT / "fixtures/incidents", ROOT.parent / "shared/cases"]
    cases = sorted(path.parent for folder in folders if folder.is_dir() for path in folder.glob("*/truth.yaml"))
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(answer, cases, chunksize=4))
    reliability(rows)
    one_area_out(rows)


if __name__ == "__main__":
    main()
