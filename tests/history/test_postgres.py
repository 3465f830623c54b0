"""A history in PostgreSQL by its URL: what goes wrong is one line without the password, and the answer still comes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from history.conftest import named
from history.test_store import incident
from services import postgres
from services.sshd import free_port

from triage.cli import cli
from triage.errors import UsageError
from triage.history import questions
from triage.history.database import WAIT_S
from triage.history.places import Address, place
from triage.history.postgres import _SETTINGS
from triage.history.store import Store, StoreError

EVIDENCE = str(Path(__file__).parents[2] / "fixtures/incidents/cgroup-kill/evidence")
SECRETS = (postgres.PASSWORD, "p@ss-word")


def explained(*words: str) -> Result:
    return CliRunner().invoke(cli, ["explain", EVIDENCE, *words], catch_exceptions=False)


def told(*words: str) -> str:
    done = CliRunner().invoke(cli, ["history", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def address(url: str) -> Address:
    found = named(url)
    assert isinstance(found, Address)
    return found


def refused(port: int) -> str:
    return f"postgresql://triage:{postgres.PASSWORD}@127.0.0.1:{port}/team"


def test_explain_keeps_and_history_tells(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert explained("--history", url).stderr == ""
    monkeypatch.setenv("TRIAGE_HISTORY", url)
    assert explained().exit_code == 0
    (row,) = json.loads(told("list", "--format", "json"))
    assert row["times"] == 2
    told("note", row["id"][:8], "more memory", "--held", "yes", "--history", url)
    assert "more memory (held: yes)" in told("show", row["id"][:8])
    assert "goodput" in told("stats", "--history", url)
    assert told("nodes").startswith("node")


def test_export_is_the_same_from_both(url: str, tmp_path: Path) -> None:
    files = []
    for name, where in (("a.csv", url), ("b.csv", str(tmp_path / "h.sqlite"))):
        with Store(named(where)) as store:
            store.add(incident(1), now=1.0)
            store.add(incident(2, cause="network/link-down", run_s=None), now=2.0)
        told("export", "-o", str(tmp_path / name), "--history", where)
        files.append((tmp_path / name).read_text())
    assert files[0] == files[1] and files[0].count("\n") == 3


@pytest.mark.parametrize("words", [(), ("-v",)])
def test_nobody_listens(words: tuple[str, ...]) -> None:
    done = explained("--history", refused(free_port()), *words)
    assert done.exit_code == 0 and done.stdout.startswith("Diagnosed")
    (line,) = done.stderr.splitlines()
    assert line.startswith("triage: not kept in the history: postgresql://triage@127.0.0.1:") and "refused" in line
    assert not any(secret in done.output for secret in SECRETS)


@pytest.mark.long
def test_a_server_that_accepts_and_says_nothing_costs_its_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.history.postgres.WAIT_S", 2)  # the least that the driver takes
    with socket.create_server(("127.0.0.1", 0)) as mute:
        start = time.monotonic()
        done = explained("--history", refused(mute.getsockname()[1]))
    assert done.exit_code == 0 and done.stdout and "timeout" in done.stderr
    assert time.monotonic() - start < 12


def test_quiet_says_nothing() -> None:
    assert explained("--history", refused(free_port()), "-q").stderr == ""


def test_a_wrong_password_is_not_told(url: str) -> None:
    wrong = url.replace(postgres.PASSWORD, "hunter2%21")
    done = explained("--history", wrong)
    assert done.exit_code == 0 and "password authentication failed" in done.stderr
    assert done.stderr.count("\n") == 1 and "hunter2" not in done.output


def test_history_needs_the_server() -> None:
    with pytest.raises(StoreError, match=r"^postgresql://triage@127\.0\.0\.1:\d+/team: ") as error:
        told("nodes", "--history", refused(free_port()))
    assert error.value.exit_code == 1 and "\n" not in str(error.value)


def test_the_whole_program_says_one_line_when_the_server_goes_away(url: str) -> None:
    script = (
        "import sys; from history.conftest import named; from history.test_store import incident\n"
        "from triage.history.store import Store, StoreError\n"
        "with Store(named(sys.argv[1])) as store:\n"
        "    try:\n"
        "        with store.writing():\n"
        "            store._insert(incident(1), 0.0, 1)\n"
        "            store.rows('SELECT pg_terminate_backend(pg_backend_pid())')\n"
        "    except StoreError as error:\n"
        "        print(error)\n"
    )
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    done = subprocess.run(
        [sys.executable, "-c", script, url], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert done.stdout.startswith("postgresql://triage@127.0.0.1")
    with Store(named(url)) as store:
        assert questions.listed(store) == []


def test_a_writer_that_never_ends_keeps_nobody_waiting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short = tuple(each.replace(f"lock_timeout = '{WAIT_S}s'", "lock_timeout = '300ms'") for each in _SETTINGS)
    assert short != _SETTINGS
    with Store(named(url)) as store, store.writing():
        monkeypatch.setattr("triage.history.postgres._SETTINGS", short)
        done = explained("--history", url)
        assert done.exit_code == 0 and "lock timeout" in done.stderr and done.stderr.count("\n") == 1
        assert told("list", "--history", url).startswith("id")  # who only reads does not wait


def test_who_may_only_read_reads(url: str) -> None:
    import psycopg

    with Store(named(url)) as store:
        store.add(incident(1))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reader-word'")
        connection.execute("GRANT USAGE ON SCHEMA triage_history TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA triage_history TO reader")
    with Store(named(url.replace(f"triage:{postgres.PASSWORD}", "reader:reader-word"))) as store:
        assert len(questions.listed(store)) == 1
        with pytest.raises(StoreError, match="permission denied"):
            store.add(incident(2))


def test_a_newer_store_is_left_alone(url: str) -> None:
    with Store(named(url)) as store:
        store.rows("UPDATE version SET number = 99")
    with pytest.raises(StoreError, match="newer"):
        Store(named(url))


def test_the_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"gpu-triage\[postgres\]"):
        told("nodes", "--history", "postgresql://h/d")
    done = explained("--history", "postgresql://h/d")
    assert done.exit_code == 0 and "gpu-triage[postgres]" in done.stderr


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://u:secret@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgres://u:se%40cret@h/d?sslmode=require&password=secret", "postgres://u@h/d"),
        ("postgresql://h1:1,h2:2/d", "postgresql://h1:1,h2:2/d"),
        ("postgresql:///d?host=/run/x&sslpassword=secret", "postgresql:///d"),
        ("postgresql://u:secret@[::1]:5/d", "postgresql://u@[::1]:5/d"),
        ("POSTGRESQL://u:secret@h/d", None),
    ],
)
def test_names_hold_no_password(url: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(UsageError) as error:
            place(url)
        assert "secret" not in str(error.value)
        return
    found = address(url)
    assert found.name == name and "secret" not in repr(found)
    if "secret" in url:
        assert "secret" not in found.hidden(f"{url}: password=secret, secret, sslpassword=secret")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:se@cret@h/d", "postgresql://u:se/cret@h/d", "postgresql://u:se?cret@h/d",
        "postgresql://u:se#cret@h/d", "postgresql://u:secret@h:port/d", "postgresql://h/d?password=se@cret",
        "mysql://u:secret@h/d", "https://u:secret@h/d",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(UsageError) as error:
        explained("--history", url)
    assert not any(part in str(error.value) for part in ("cret", "se@", "u:"))


def test_a_wrong_variable_does_not_disturb_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_HISTORY", "mysql://u:secret@h/d")
    done = explained()
    assert done.exit_code == 0 and done.stderr.count("\n") == 1 and "secret" not in done.stderr
