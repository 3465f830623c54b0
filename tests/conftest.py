"""Shared by all tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden writes the golden reports anew."""
    parser.addoption("--update-golden", action="store_true", help="write the golden reports anew; look at the diff")
