"""Stacks as py-spy 0.4.3 and faulthandler of Python 3.11 wrote them, recorded from four ranks over Gloo that hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.model.bundle import Document, File
from triage.model.event import Fact
from triage.parsers import kernel_stack, recognise, stacks

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "parsers" / "stacks"
INTERLEAVED = """\
[rank1]: Fatal Python error: Segmentation fault
[rank1]:
[rank3]: Timeout (0:05:00)!
[rank1]: Current thread 0x00007f0000000001 (most recent call first):
[rank3]: Thread 0x00007f0000000007 (most recent call first):
[rank1]:   File "/srv/train/ops.py", line 7 in launch
[rank3]:   File "/usr/lib/python3.11/threading.py", line 327 in wait
[rank3]:
[rank3]: Thread 0x00007f0000000003 (most recent call first):
[rank1]:   File "/srv/train/train.py", line 30 in <module>
[rank3]:   File "/srv/train/data.py", line 9 in tokenize
[rank3]:   File "/srv/train/train.py", line 22 in <module>
"""


def told(text: str | bytes, rank: int | None = None) -> list[Fact]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(stacks.facts(Document(file=File(path="x", size=len(data), rank=rank), data=data, unpickle=bytes)))


def frames(found: list[Fact], name: str = "stack.frames") -> list[list[str]]:
    return [[str(each) for each in fact.value] for fact in found if fact.name == name and isinstance(fact.value, list)]


def test_text_json_and_native_dumps_show_the_same_stack() -> None:
    (native,) = frames(told((FIXTURES / "shard/rank2.pid30712.native.txt").read_bytes()))
    (plain,) = frames(told((FIXTURES / "shard/rank2.pid30712.stack.json").read_bytes()))
    assert native[0] == "read (libc.so.6)"
    assert plain[0] == "Shards.__getitem__ (train.py:12)"
    assert native[1:-1] == plain  # the last frame of a native stack is that of libc's start


def test_each_frame_knows_its_line() -> None:
    data = (FIXTURES / "lock/rank2.pid2974.stack.txt").read_bytes()
    lines = next(fact.value for fact in told(data) if fact.name == "stack.lines")
    assert isinstance(lines, list)
    assert [data.decode().splitlines()[int(line) - 1].strip() for line in lines] == frames(told(data))[0]


def test_children_are_no_ranks() -> None:
    found = told((FIXTURES / "worker/rank2.pid1798.sub.txt").read_bytes(), rank=2)
    assert [fact.entity for fact in found if fact.name == "stack.frames"] == [{"rank": 2, "pid": 1798}]
    assert frames(found, "stack.worker")[0][0] == "Shards.__getitem__ (train.py:12)"


def test_main_thread_is_the_one_of_the_script() -> None:
    """faulthandler lists the newest thread first and names none."""
    found = frames(told((FIXTURES / "worker/rank2.log").read_bytes()))
    assert [each[0] for each in found] == ["select (/usr/local/lib/python3.11/selectors.py:415)"]


def test_ranks_in_one_log_are_told_apart() -> None:
    found = {(fact.entity["rank"], fact.name): fact.value for fact in told(INTERLEAVED) if fact.name != "stack.lines"}
    assert found == {
        (1, "stack.fatal"): ["launch (/srv/train/ops.py:7)", "<module> (/srv/train/train.py:30)"],
        (3, "stack.frames"): ["tokenize (/srv/train/data.py:9)", "<module> (/srv/train/train.py:22)"],
    }


def test_a_process_asked_twice_gives_two_dumps() -> None:
    """By a signal, by a timer, and the stack that an abort leaves."""
    head = "Current thread 0x00007f01 (most recent call first):\n"
    one = head + '  File "a.py", line {line} in f\n  File "a.py", line 9 in <module>\n'
    for begin in ("", "Timeout (0:05:00)!\n", "Fatal Python error: Aborted\n\n"):
        found = frames(told("".join(begin + one.format(line=line) for line in (3, 4))))
        assert [each[0] for each in found] == ["f (a.py:3)", "f (a.py:4)"], begin


SPAWNED = """\
Process 21: python launch.py
Python v3.11.7 (/usr/bin/python3.11)
Parent Process 20: python launch.py

Thread 21 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    work (job.py:7)
    _wrap (torch/multiprocessing/spawn.py:90)
    spawn_main (multiprocessing/spawn.py:122)
    <module> (<string>:1)
"""
NAMELESS = """\
Stack dump for user 20768
Thread 0x7F4AA36D9700 (active)
\t run (threading.py:864)
\t _bootstrap (threading.py:884)
Thread 0x7F4AACDE7700 (active)
\t main_loop (work.py:{line})
\t <module> (work.py:105)

"""


def test_ranks_that_a_launcher_spawned_are_ranks() -> None:
    """In a file of one rank its children are not; in a file of the launcher they are who is asked about."""
    assert [fact.name for fact in told(SPAWNED)] == ["stack.frames", "stack.lines"]
    assert [fact.name for fact in told(SPAWNED, rank=0)] == ["stack.worker"]


def test_dumps_of_old_releases_without_names() -> None:
    found = frames(told(NAMELESS.format(line=1) + NAMELESS.format(line=2)))
    assert [each[0] for each in found] == ["main_loop (work.py:1)", "main_loop (work.py:2)"]


def test_without_a_main_thread_nothing_is_said() -> None:
    assert told("\n".join(NAMELESS.splitlines()[:4])) == []


def test_equal_stacks_put_together_are_one_each() -> None:
    text = 'Thread 11 (active): "MainThread"\nThread 12 (idle): "MainThread"\n    f (a.py:1)\n    <module> (a.py:9)\n'
    assert [fact.entity["pid"] for fact in told(text) if fact.name == "stack.frames"] == [11, 12]


def test_kernel_stack() -> None:
    data = b"[<0>] rpc_wait_bit_killable+0x24/0xb0 [sunrpc]\n[<0>] nfs4_do_close+0x2a5/0x300 [nfsv4]\n"
    document = Document(file=File(path="x", size=9, rank=1, pid=4), data=data, unpickle=bytes)
    (fact,) = kernel_stack.facts(document)
    assert fact.value == ["rpc_wait_bit_killable [sunrpc]", "nfs4_do_close [nfsv4]"]
    assert fact.entity == {"rank": 1, "pid": 4}


@pytest.mark.parametrize("name", sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("*.*")))
def test_recognised_by_content(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    assert recognise(data, data)[0] == ("kernel_stack" if "kernel-stack" in name else "stacks")


@pytest.mark.parametrize(
    "foreign",
    [
        b"step 1 loss 2.0\n",
        b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n',
        b"[12.5] Call Trace:\n[12.5]  [<ffffffff8100>] schedule+0x29/0x70\n",
        b"#0 0x7f in read ()\n#1 main (argc=1) at a.c:3\n",
        b'[{"pid": 1, "name": "trace"}]',
    ],
)
def test_other_sources_are_refused(foreign: bytes) -> None:
    assert stacks.recognises(foreign, foreign) == 0 == kernel_stack.recognises(foreign, foreign)


def test_cut_anywhere_nothing_but_value_errors() -> None:
    for path in [FIXTURES / "worker/rank2.pid1798.sub.txt", FIXTURES / "shard/rank2.pid30712.stack.json"]:
        data = path.read_bytes()
        for end in range(0, len(data), 41):
            try:
                told(data[:end])
            except ValueError:
                assert path.suffix == ".json"
