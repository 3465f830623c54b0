"""Pickles give plain data or a reason; nothing they hold is ever run."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from triage.bundle.opening import open_evidence
from triage.bundle.workers import Bounds, Unpickler, can_fork, forked

TEST = os.getpid()


def killed() -> bytes:
    if os.getpid() != TEST:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"done here"


def failing() -> bytes:
    raise ValueError(f"in {'the test' if os.getpid() == TEST else 'a copy'}")


linux = pytest.mark.skipif(sys.platform != "linux", reason="copies of this process are made on Linux alone")


@linux
def test_copies_share_what_is_open_and_give_back_bytes(tmp_path: Path) -> None:
    shared = b"x" * (1 << 20)
    works = [partial(b"%d %d ".__mod__, (number, len(shared))) for number in range(4)]
    assert forked(works) == [b"%d 1048576 " % number for number in range(4)]
    assert forked([lambda: shared, lambda: shared]) == [shared, shared]
    assert forked([]) == []


def children() -> set[str]:
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


@linux
def test_the_work_of_a_copy_that_dies_is_done_here(capfd: pytest.CaptureFixture[str]) -> None:
    before = children()
    assert forked([lambda: b"first", killed]) == [b"first", b"done here"]
    with pytest.raises(ValueError, match="in the test"):
        forked([lambda: b"first", failing])
    assert capfd.readouterr() == ("", "")
    assert children() <= before


@linux
def test_no_copies_beside_another_thread() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert not can_fork()
    done.set()
    thread.join()


@pytest.fixture(scope="module")
def unpickler() -> Iterator[Unpickler]:
    made = Unpickler(Bounds(memory=1 << 30, cpu=3, wall=20))
    yield made
    made.close()


class Gadget:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_plain_data(unpickler: Unpickler, protocol: int) -> None:
    data = {
        "version": "2.10",
        "entries": [{"state": "started", "sizes": [[1, 2]], 3: None}],
        "addr": 2**64 - 1,
        "ok": 1.5,
    }
    assert unpickler.load(pickle.dumps(data, protocol)) == data
    assert unpickler.load(pickle.dumps([(1, "two")], protocol)) == [[1, "two"]]


def test_bytes(unpickler: Unpickler) -> None:
    assert unpickler.load(pickle.dumps([b"three"])) == [b"three"]


def test_classes_are_refused_and_not_run(unpickler: Unpickler, tmp_path: Path) -> None:
    for gadget in (Gadget(os.system, f"touch {tmp_path}/x"), Gadget(eval, "1"), {"a": [Path("x")]}, Gadget(print)):
        with pytest.raises(ValueError, match="asks for"):
            unpickler.load(pickle.dumps(gadget))
    assert list(tmp_path.iterdir()) == []


def laughs() -> bytes:
    """Ten lists of ten references each: small to load, 10^10 when written out."""
    data: list[Any] = ["ha"] * 10
    for _ in range(10):
        data = [data] * 10
    return pickle.dumps(data)


def itself() -> bytes:
    data: list[Any] = []
    data.append(data)
    return pickle.dumps(data)


HOSTILE = {
    "persistent id": b"\x80\x02U\x01xQ.",
    "extension": b"\x80\x02\x82\x01.",
    "build on a dict": b"\x80\x02}}U\x01aK\x01sb.",
    "call of a text": b"\x80\x02U\x02os)R.",
    "laughs": laughs(),
    "holds itself": itself(),
    "deep": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "memo of 2^31": b"\x80\x02]r\xff\xff\xff\x7f.",
    "length of 2^60": b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"x.",
    "frame of 2^60": b"\x80\x04\x95" + (1 << 60).to_bytes(8, "little") + b"N.",
    "huge number": pickle.dumps(1 << 100_000),
    "digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "cut": pickle.dumps({"a": list(range(999))})[:200],
    "empty": b"",
    "noise": os.urandom(999),
    "list as a key": b"\x80\x02}]K\x01s.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickle_is_a_reason_and_the_next_one_loads(unpickler: Unpickler, name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(ValueError, match="cannot be read"):
        unpickler.load(HOSTILE[name])
    assert time.perf_counter() - start < 15
    assert unpickler.load(pickle.dumps([1])) == [1]


def test_time_out_and_too_large_a_result() -> None:
    unpickler = Unpickler(Bounds(cpu=60, wall=0.3, memory=8 << 30))
    with pytest.raises(ValueError, match="too long"):
        unpickler.load(laughs())
    unpickler.close()
    unpickler = Unpickler(Bounds(result=100))
    with pytest.raises(ValueError, match="too large"):
        unpickler.load(pickle.dumps("x" * 999))
    unpickler.close()
    unpickler.close()


def test_child_is_shared_by_threads_and_ended() -> None:
    unpickler = Unpickler()
    results: list[Any] = []
    jobs = [threading.Thread(target=lambda n=n: results.append(unpickler.load(pickle.dumps(n)))) for n in range(16)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert sorted(results) == list(range(16))
    child = unpickler._child
    unpickler.close()
    assert child is not None
    assert child.returncode is not None


def test_evidence_ends_the_child(tmp_path: Path) -> None:
    (tmp_path / "fr_rank0").write_bytes(pickle.dumps({"entries": []}))
    with open_evidence([str(tmp_path)], recognise=lambda head, tail: ("flight_recorder",)) as evidence:
        assert evidence.unpickle(evidence.read(evidence.files[0])) == {"entries": []}
        child = evidence._unpicklers._all[-1]._child
    assert child is not None
    assert child.returncode is not None
