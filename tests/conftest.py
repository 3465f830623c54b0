"""Shared by all tests."""

from __future__ import annotations

import gc
import os

import pytest

# Folders whose tests wait for services, deadlines and browsers: they begin first, beside those that only compute.
WAITING = ("transport", "faults", "history", "report", "collectors")

ALL = "TRIAGE_TEST_ALL"  # set: long tests run, too, as they do in CI; most have shorter ones of their kind beside them

gc.set_threshold(100_000, 10, 10)  # the catalogue is a large heap to go through again and again: a tenth of the time
os.environ["TRIAGE_HISTORY"] = "off"  # no test writes into the home of whoever runs it


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden writes the golden reports anew."""
    parser.addoption("--update-golden", action="store_true", help="write the golden reports anew; look at the diff")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that wait come first; the rest stays as it is. Long ones are left out where nobody asked for them."""
    for item in items if not os.environ.get(ALL) else ():
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason=f"long: set {ALL}=1"))
    places = {folder: place for place, folder in enumerate(WAITING)}
    items.sort(key=lambda item: places.get(item.path.parent.name, len(WAITING)))
