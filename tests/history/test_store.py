"""The store, in a file and in PostgreSQL: the same incident once, crash-safe, two writers, and the questions asked."""

from __future__ import annotations

import csv
import io
import math
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from history.conftest import named
from report.building import report, span

from triage.errors import UsageError
from triage.history import exporting, questions
from triage.history.places import place
from triage.history.records import Kept, kept
from triage.history.statistics import corrected, more_often
from triage.history.store import Store, StoreError
from triage.model.pictures import Pictures
from triage.model.report import Culprit
from triage.report.postmortem import compose


def incident(
    number: int = 0, node: str = "node01", cause: str | None = "gpu/fallen-off-bus", **changes: object
) -> Kept:
    values: dict[str, object] = {
        "id": f"{number:064x}", "verdict": "diagnosed" if cause else "healthy", "cause": cause, "title": "t",
        "confidence": 0.9, "job": str(number), "ended": 1.0, "run_s": 86400.0, "lost_s": 3600.0, "gpu_hours": 8.0,
        "ranks": 8, "nodes": ("node01", "node02"), "culprits": (Culprit(node=node, gpu=3),) if cause else (),
        "signatures": ("gpu/xid-79",),
    }  # fmt: skip
    return Kept(**values | changes)  # type: ignore[arg-type]


def test_what_is_kept_of_a_report() -> None:
    told = report()
    drawn = Pictures(evidence="ab", span=span(1800.0))
    one = kept(told, drawn, compose(told, drawn).impact)
    assert (one.cause, one.job, one.run_s, one.lost_s, one.gpu_hours) == (
        "gpu/fallen-off-bus",
        "77",
        5400.0,
        1800.0,
        4.0,
    )
    assert one.id == "ab"


def test_the_same_evidence_is_one_incident(store: Store) -> None:
    assert store.add(incident(1), now=10.0)
    store.note("0" * 63 + "1", "swapped the riser", "yes", now=11.0)
    assert not store.add(incident(1, run_s=43200.0), now=99.0)
    (row,) = questions.listed(store)
    assert (row["seen"], row["times"]) == (10.0, 2)
    assert questions.shown(store, row["id"])["notes"] == [{"at": 11.0, "text": "swapped the riser", "held": "yes"}]
    assert store.rows("SELECT runs, seconds FROM exposure WHERE node='node01'") == [{"runs": 1, "seconds": 43200.0}]


def test_an_id_by_its_beginning(store: Store) -> None:
    store.add(incident(0xAB << 248))
    store.add(incident(0xAC << 248))
    assert store.find("ab").startswith("ab")
    for bad in ("a", "ff", "%", "'; DROP TABLE incidents; --"):
        with pytest.raises(UsageError):
            store.find(bad)


def test_seen_before_with_what_was_done(store: Store) -> None:
    store.add(incident(1), now=10.0)
    store.add(incident(2), now=20.0)
    store.note(f"{1:064x}", "reseated", None, now=11.0)
    store.note(f"{1:064x}", "swapped", "yes", now=12.0)
    like = questions.before(store, report(), "x")
    assert [(row["seen"], row["note"], row["held"]) for row in like] == [(20.0, None, None), (10.0, "swapped", "yes")]


def test_filters(store: Store) -> None:
    store.add(incident(1))
    store.add(incident(2, node="node02", cause="network/link-down", signatures=("network/link-down",)))
    assert [row["job"] for row in questions.listed(store, cause="gpu")] == ["1"]
    assert [row["job"] for row in questions.listed(store, node="node02")] == ["2"]
    assert [row["job"] for row in questions.listed(store, signature="gpu/xid-79")] == ["1"]


def test_repeat_offenders(store: Store) -> None:
    nodes = tuple(f"node{at:02d}" for at in range(16))
    for at in range(6):
        store.add(incident(at, node="node07", nodes=nodes))
    for at in range(6, 9):
        store.add(incident(at, node=f"node0{at - 5}", nodes=nodes))
    store.add(incident(99, node="node08", cause="code/exception", nodes=nodes))  # says nothing about a node
    rows = questions.nodes(store)
    assert (rows[0]["node"], rows[0]["incidents"], rows[0]["repeat_offender"]) == ("node07", 6, True)
    assert [row["node"] for row in rows if row["repeat_offender"]] == ["node07"]
    assert rows[0]["per_node_day"] == pytest.approx(6 / 10)
    assert "node08" not in {row["node"] for row in rows}


def test_one_incident_makes_no_offender(store: Store) -> None:
    store.add(incident(1, nodes=("node01", *(f"n{at}" for at in range(1000)))))
    assert not questions.nodes(store)[0]["repeat_offender"]


def test_runs_stand_for_time_when_there_are_no_times(store: Store) -> None:
    for at in range(4):
        store.add(incident(at, run_s=None))
    (row,) = questions.nodes(store)
    assert (row["node_days"], row["per_node_day"], row["runs"]) == (None, None, 4)
    assert row["chance"] == pytest.approx(0.5**4)


def test_the_exact_test() -> None:
    assert more_often(3, 3, 1.0, 2.0) == pytest.approx(0.125)  # three heads of three
    assert more_often(2, 4, 1.0, 4.0) == pytest.approx(
        sum(math.comb(4, k) * 0.25**k * 0.75 ** (4 - k) for k in (2, 3, 4))
    )
    assert [more_often(0, 9, 1, 2), more_often(2, 2, 0, 0), more_often(5, 5, 3, 3)] == [1.0, 1.0, 1.0]
    assert more_often(50_000, 100_000, 1.0, 2.0) == pytest.approx(0.5, abs=0.01)
    assert corrected([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert corrected([]) == []


def test_goodput_and_time_between_failures(store: Store) -> None:
    store.add(incident(1))
    store.add(incident(2, cause=None, gpu_hours=0.0))
    store.add(incident(3, cause="code/exception", run_s=None, gpu_hours=None))
    found = questions.stats(store)
    assert (found["incidents"], found["run_hours"], found["gpu_hours"]) == (3, 48.0, 384.0)
    assert found["goodput"] == pytest.approx(1 - 8 / 384, abs=1e-4)
    assert {row["class"]: row["mtbf_hours"] for row in found["classes"]} == {"gpu": 48.0, "code": 48.0}


def test_an_empty_store_answers(store: Store) -> None:
    assert (questions.nodes(store), questions.listed(store)) == ([], [])
    assert questions.stats(store)["goodput"] is None


def test_csv_is_whole_and_runs_no_formula(store: Store) -> None:
    store.add(incident(1, title="=HYPERLINK(1)", job='a,"b"\nc'))
    (row,) = csv.DictReader(io.StringIO(exporting.as_csv(store)))
    assert (row["title"], row["job"], row["nodes"]) == ("'=HYPERLINK(1)", 'a,"b"\nc', "node01 node02")


def test_parquet_needs_its_extra(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match=r"gpu-triage\[scale\]"):
        exporting.to_parquet(store, tmp_path / "x.parquet")


def test_parquet(store: Store, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the extra scale is not installed")
    store.add(incident(1))
    exporting.to_parquet(store, tmp_path / "it's.parquet")
    assert duckdb.sql("SELECT cause FROM '" + str(tmp_path / "it''s.parquet") + "'").fetchall() == [
        ("gpu/fallen-off-bus",)
    ]


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "h.sqlite") as store:
        store.add(incident(1))
        pages = store.rows("PRAGMA page_count")[0]["page_count"]
        store.rows(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(StoreError, match="full"):
            store.add(incident(2, nodes=tuple(f"node{at:05d}" for at in range(5000))))
        store.rows("PRAGMA max_page_count=100000")
        assert [row["job"] for row in questions.listed(store)] == ["1"]
        assert store.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert store.rows("SELECT COUNT(*) AS n FROM exposure") == [{"n": 2}]


def test_what_no_database_takes_is_kept_all_the_same(store: Store) -> None:
    store.add(incident(1, job="a\0b", node="n\udce4", nodes=("n\udce4", "\0")))
    assert [row["job"] for row in questions.listed(store, node="n\udce4")] == ["a\N{REPLACEMENT CHARACTER}b"]
    assert len(questions.shown(store, "0" * 63 + "1")["nodes"]) == 2


def test_numbers_beyond_any_row_are_one_line(store: Store) -> None:
    with pytest.raises(StoreError) as told:
        store.add(incident(1, ranks=10**30))
    assert "\n" not in str(told.value)
    assert questions.listed(store) == []


def test_a_run_of_a_million_years_is_unknown() -> None:
    one = span(1e18)
    found = kept(report(), Pictures(span=one), compose(report(), Pictures(span=one)).impact)
    assert (found.run_s, found.lost_s, found.gpu_hours) == (None, None, None)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at " * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(path)
    with pytest.raises(StoreError):
        Store(tmp_path / "notes.txt" / "below")


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(StoreError, match="newer"):
        Store(path)


def _write(where: str, first: int) -> None:
    for number in range(first, first + 10):
        with Store(named(where)) as store:
            store.add(incident(number))
            store.add(incident(number % 5, nodes=("shared",)))  # both write the same incidents


def test_two_writers_at_once(where: str) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(where, first)) for first in (1000, 2000)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    assert [each.exitcode for each in writers] == [0, 0]
    with Store(named(where)) as store:
        assert len(questions.listed(store, most=100)) == 25
        assert store.rows("SELECT runs FROM exposure WHERE node='node01'") == [{"runs": 20}]
        assert store.rows("SELECT runs FROM exposure WHERE node='shared'") == [{"runs": 5}]


_FOREVER = """
import sys, itertools
from history.conftest import named
from history.test_store import incident
from triage.history.store import Store
with Store(named(sys.argv[1])) as store:
    for number in itertools.count(int(sys.argv[2])):
        store.add(incident(number, nodes=tuple(f"node{each:04d}" for each in range(300))))
        print(number, flush=True)
"""


def test_killed_in_the_middle_of_writing(where: str) -> None:
    tests, told = Path(__file__).parents[1], 0
    for turn in range(2):
        paths = os.pathsep.join([str(tests), str(tests.parent)])
        words = [sys.executable, "-c", _FOREVER, where, str(1000 * turn)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"%d\n" % (1000 * turn)
            time.sleep(0.01 * turn)
            writer.send_signal(signal.SIGKILL)
            told += 1 + writer.stdout.read().count(b"\n")
    with (
        Store(named(where)) as store,
        store.writing(),
    ):  # a server ends what the dead left under way before we may write
        if where.endswith(".sqlite"):
            assert store.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        count = store.rows("SELECT COUNT(*) AS n FROM incidents")[0]["n"]
        assert told <= count <= told + 2  # what was told to be kept is there, and at most what was under way beside it
        assert store.rows("SELECT runs FROM exposure WHERE node='node0000'") == [{"runs": count}]
        assert store.rows("SELECT COUNT(*) AS n FROM ran") == [{"n": 300 * count}]


def test_where_it_lies() -> None:
    assert place(environment={"TRIAGE_HISTORY": "off"}) is None
    assert place(environment={"TRIAGE_HISTORY": "/x/y.sqlite"}) == Path("/x/y.sqlite")
    assert place(environment={"XDG_DATA_HOME": "/data"}) == Path("/data/triage/history.sqlite")
    told = place(environment={"HOME": "/home/u"})
    assert told is not None and told.is_relative_to("/home/u") and told.name == "history.sqlite"
    assert place(environment={}) is None


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.sqlite"
    Store(path).close()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
