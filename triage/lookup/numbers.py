"""Numbers of tables: Xid, SXid, exit codes, signals, RDMA status and vendor errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import msgspec

from triage import content
from triage.lookup import names
from triage.model.lookup import Entry, ExitCode, Kind, RdmaStatus
from triage.model.tables import Recurrence, Sxid, Xid
from triage.vocabulary import Role

T = TypeVar("T")
_Table = Callable[[int], Iterator[Entry]]
_FIRST_SXID = 10_000  # of the numbers that NVSwitch drivers print
_FOLLOWS = {"SIGTERM", "SIGABRT", "SIGPIPE"}  # sent to a process, or by itself, because something else went wrong
_NUMBER = r"(?P<number>-?\d+|0x[0-9a-fA-F]+)"


def entries(query: str) -> Iterator[Entry]:
    """Everything that a query with a number, or the name of one, stands for; the likeliest first."""
    for expression, tables in _FORMS:
        if found := expression.fullmatch(query):
            number = int(found["number"], 0)
            for table in tables:
                yield from table(number)
            return
    if found := _PAIR.fullmatch(query):
        yield from _pair(int(found[1]), int(found[2]))
    yield from _named(query.upper().replace(" ", "_"))


def xid(number: int) -> Iterator[Entry]:
    """A number that the GPU driver prints."""
    for row in table("xid.yaml", Xid):
        if row.number == number:
            follows = [f"Xid {each}" for each in row.follows]
            yield _hardware(
                "Xid", row, vendor_action=row.vendor_action, vendor_follow_up=row.vendor_follow_up, follows=follows
            )


def sxid(number: int) -> Iterator[Entry]:
    """A number that the NVSwitch driver prints."""
    for row in table("sxid.yaml", Sxid) if number >= _FIRST_SXID else ():
        if row.number == number:
            entry = _hardware("SXid", row)
            notes = {"in the line": row.prints} if row.prints else {}
            notes["severity"] = "the word Fatal or Non-fatal in the line decides; this is the usual one"
            yield msgspec.structs.replace(entry, notes=notes)


def exit_code(number: int) -> Iterator[Entry]:
    """What a shell, Slurm, Kubernetes or Python's launchers print; a negative one is a signal."""
    if number < 0:
        yield from signal(-number)
    for row in table("exit_codes.yaml", ExitCode):
        if row.code == number:
            kind = f"exit code {row.code}: {row.name}"
            yield _ended("exit code", str(row.code), kind, row)


def signal(number: int) -> Iterator[Entry]:
    """A signal by its number."""
    for row in table("exit_codes.yaml", ExitCode):
        if row.signal == number:
            yield _ended("signal", row.name, f"{row.name}, signal {row.signal} (exit code {row.code})", row)


def status(number: int) -> Iterator[Entry]:
    """A completion status of RDMA verbs."""
    for row in table("rdma_status.yaml", RdmaStatus):
        if row.status == number:
            yield _completion(row)


def vendor(number: int) -> Iterator[Entry]:
    """A vendor error that is printed beside an RDMA status."""
    for row in table("rdma_status.yaml", RdmaStatus):
        if row.vendor == number:
            yield _completion(row)


@cache
def table(name: str, kind: type[T]) -> tuple[T, ...]:
    """The rows of a file of triage/data. Raises ContentError."""
    return tuple(content.load(content.data(name), list[kind]))  # type: ignore[valid-type]


def _form(expression: str, *tables: _Table) -> tuple[re.Pattern[str], tuple[_Table, ...]]:
    return re.compile(expression, re.IGNORECASE), tables


_FORMS = (
    _form(rf"(?:nvrm: ?)?xid[ :#=-]*{_NUMBER}", xid),
    _form(rf"sxid[ :#=-]*{_NUMBER}", sxid),
    _form(rf"(?:vendor|vend)[ _]?(?:err(?:or)?|syndrome)?[ :=]*{_NUMBER}", vendor),
    _form(rf"(?:ibv?_?)?(?:wc|rdma|ib|completion|work completion)[ _]?(?:status|error|err)?[ :=]*{_NUMBER}", status),
    _form(rf"status[ :=]*{_NUMBER}", status, exit_code),
    _form(rf"(?:exited with )?(?:exit ?(?:code|status)?|rc|return ?code|code|errorlevel)[ :=]*{_NUMBER}", exit_code),
    _form(rf"(?:killed by |caught |terminated by )?(?:signal|sig|kill)[ :=]*-?{_NUMBER}", signal),
    _form(_NUMBER, xid, sxid, exit_code, signal, status, vendor),
)  # fmt: skip
_PAIR = re.compile(r"(?:ExitCode=)?(\d+):(\d+)", re.IGNORECASE)


def _pair(code: int, number: int) -> Iterator[Entry]:
    """Slurm's `code:signal`."""
    if code or not number:
        yield from exit_code(code)
    if number:
        yield from signal(number)


def _named(word: str) -> Iterator[Entry]:
    """SIGKILL, KILL, IBV_WC_RETRY_EXC_ERR, or the driver's own name of an Xid."""
    for row in table("exit_codes.yaml", ExitCode):
        if row.signal and row.name.removeprefix("SIG") == word.removeprefix("SIG"):
            yield from signal(row.signal)
    if word.startswith("IBV_WC_"):
        for completion in table("rdma_status.yaml", RdmaStatus):
            if completion.name == word.split("(")[0] and completion.status is not None:
                yield from status(completion.status)
    if word.startswith("ROBUST_CHANNEL_"):
        for event in table("xid.yaml", Xid):
            if event.mnemonic == word:
                yield from xid(event.number)


def _hardware(kind: Kind, row: Xid | Sxid, **more: object) -> Entry:
    """A numbered hardware event, with what its signature adds."""
    base = names.of_signature(row.signature)
    entry = Entry(
        kind=kind,
        name=str(row.number),
        title=f"{kind} {row.number}: {row.mnemonic}",
        means=row.means,
        severity=row.severity,
        actions=names.ours(row.action),
        history=[_recurrence(each) for each in row.history],
    )
    return msgspec.structs.replace(names.with_base(entry, base), **more)


def _recurrence(rule: Recurrence) -> str:
    return f"{rule.at_least} times within {rule.within}: {rule.then}"


def _ended(kind: Kind, name: str, title: str, row: ExitCode) -> Entry:
    base = names.of_signature(f"torch/exit-{row.name.lower()}" if row.signal else None)
    role: Role | None = "consequence" if row.name in _FOLLOWS else None
    entry = Entry(kind=kind, name=name, title=title, means=row.means, look=row.look, role=role)
    entry = msgspec.structs.replace(entry, confused_with=base.confused_with, signatures=base.signatures)
    return names.with_cause(entry, row.cause)


def _completion(row: RdmaStatus) -> Entry:
    number, kind = (row.vendor, "RDMA vendor error") if row.status is None else (row.status, "RDMA status")
    base = names.of_signature(row.signature)
    role: Role | None = "consequence" if row.consequence else "symptom" if row.cause else None
    entry = Entry(
        kind="RDMA status" if row.status is not None else "RDMA vendor error",
        name=str(number), title=f"{kind} {number}: {row.name}", means=row.means, look=row.look, role=role,
        next_check=base.next_check, actions=base.actions, confused_with=base.confused_with,
        playbooks=base.playbooks, signatures=base.signatures,
    )  # fmt: skip
    return names.with_cause(entry, row.cause)
