"""Shared by all tests."""

from __future__ import annotations

import os

import pytest

os.environ["TRIAGE_HISTORY"] = "off"  # no test writes into the home of whoever runs it


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden writes the golden reports anew."""
    parser.addoption("--update-golden", action="store_true", help="write the golden reports anew; look at the diff")
