"""Two releases of one driver, from the lines that a framework prints when CUDA does not start."""

from __future__ import annotations

import pytest

from tests.analysis.build import incident, named, signal
from triage.analysis import driver_versions


@pytest.mark.parametrize(
    ("library", "module", "told"),
    [
        ("375.66.0", "384.130", ["yes"]),
        ("384.130.0", "384.130", []),
        ("535.161.8", "535.161.08", []),
        ("550.54.15", "550.54.14", ["yes"]),
    ],
)
def test_releases_are_compared_as_numbers(library: str, module: str, told: list[str]) -> None:
    signals = [
        signal("driver/library-version", version=library),
        signal("driver/module-version", version=module),
    ]
    assert named(driver_versions.derive(incident(signals=signals)), "driver.differs") == told


def test_one_release_alone_says_nothing() -> None:
    signals = [signal("driver/library-version", version="375.66.0")]
    assert named(driver_versions.derive(incident(signals=signals)), "driver.differs") == []
