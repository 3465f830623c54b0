"""An interrupt at any moment leaves no program of ours behind."""

from __future__ import annotations

import signal
import subprocess
import threading
from typing import IO, Any

import pytest

from triage.transport import fanout


def test_an_interrupt_while_a_program_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = fanout._quietly

    def interrupted(command: Any, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        started.append(start(command, errors))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(fanout, "_quietly", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fanout.answer_of(["sleep", "60"], 30)
    assert started[0].returncode == -signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is before
    assert not fanout._questions


def test_a_question_of_another_thread_touches_no_handler() -> None:
    told: list[tuple[bytes, str | None]] = []
    thread = threading.Thread(target=lambda: told.append(fanout.answer_of(["echo", "here"], 30)))
    thread.start()
    thread.join()
    assert told == [(b"here\n", None)]


def test_an_absent_program() -> None:
    assert fanout.answer_of(["no-such-program"], 5) == (b"", "no-such-program: No such file or directory")
