"""Shared by all tests."""

from __future__ import annotations

import os

import pytest

# Folders whose tests wait for services, deadlines and browsers: they begin first, beside those that only compute.
WAITING = ("transport", "faults", "history", "report", "collectors")

# Tests of minutes: real services, deaths at every step, fresh fuzz inputs. CI asks for all; at home they are asked for.
LONG = ("transport", "faults", "fuzz")
LONG_FILES = ("test_postgres.py", "test_coverage_of_facts.py", "test_reduction.py", "test_cache.py")

os.environ["TRIAGE_HISTORY"] = "off"  # no test writes into the home of whoever runs it


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden writes the golden reports anew."""
    parser.addoption("--update-golden", action="store_true", help="write the golden reports anew; look at the diff")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that wait come first; the long ones are left out, and say so, unless TRIAGE_TESTS=all asks for them."""
    places = {folder: place for place, folder in enumerate(WAITING)}
    items.sort(key=lambda item: places.get(item.path.parent.name, len(WAITING)))
    if os.environ.get("TRIAGE_TESTS") != "all":
        left_out = pytest.mark.skip(reason="a long one: TRIAGE_TESTS=all runs it, as .ci/run does")
        for item in items:
            if item.path.parent.name in LONG or item.path.name in LONG_FILES:
                item.add_marker(left_out)
