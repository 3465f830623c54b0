"""Both kinds of store: a file, and a real PostgreSQL where the programs are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from services import postgres

from triage.history.places import Address, place
from triage.history.store import Store


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """URL of a database that lives for the tests of one process."""
    if why := postgres.missing():
        pytest.skip(why)
    with ExitStack() as stack:
        yield stack.enter_context(postgres.running("max_connections=20"))


@pytest.fixture
def url(server: str) -> str:
    """The database without anything in it."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS triage_history CASCADE")
    return server


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What TRIAGE_HISTORY would say."""
    if request.param == "postgres":
        return str(request.getfixturevalue("url"))
    return str(tmp_path / "deep" / "history.sqlite")


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    """An empty store of each kind."""
    with Store(named(where)) as opened:
        yield opened


def named(where: str) -> Path | Address:
    """The place that a person names so."""
    found = place(where)
    assert found is not None
    return found
