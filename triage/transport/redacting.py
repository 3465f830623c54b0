"""Redacting evidence that lies here already: logs, folders, bundles."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast

from triage.bundle.opening import Evidence, open_evidence
from triage.bundle.redaction import Redactor
from triage.bundle.writing import DiskFullError, Writer, member, suffix_of
from triage.errors import BundleError, UsageError
from triage.model.base import Record
from triage.transport.collecting import keep_key


class Redacted(Record, frozen=True, kw_only=True):
    """What was done: where it is, the key file beside it, files, and values of each kind taken out."""

    path: Path
    key: Path
    files: int
    counts: dict[str, int]


def redact(
    paths: list[str], output: Path, hosts: bool, words: Mapping[str, set[str]], key: str | None, force: bool
) -> Redacted:
    """Write a redacted copy: an archive, or one file for one log. Raises UsageError and BundleError."""
    with open_evidence(paths) as evidence:
        known = _known(evidence, words)
        secret = _key(key, paths)
        redactor = Redactor(secret, known, hosts)
        if not suffix_of(output.name) and len(evidence.files) != 1:
            raise UsageError(f"{output.name}: several files need an archive, .tar.zst or .tar.gz")
        key_path = output.with_name(output.name + ".key.json")
        keep_key(key_path, secret, known if hosts else {"user": known["user"]})
        try:
            if suffix_of(output.name):
                files = _archive(evidence, output, redactor, force, hosts)
            else:
                files = _single(evidence, output, redactor)
        except BaseException:
            key_path.unlink(missing_ok=True)
            raise
    return Redacted(path=output, key=key_path, files=files, counts=dict(redactor.counts))


def verify(paths: list[str], hosts: bool, words: Mapping[str, set[str]]) -> dict[str, dict[str, int]]:
    """Files in which the rules find something, with how many of each kind. The values are not told."""
    found = {}
    with open_evidence(paths) as evidence:
        known = _known(evidence, words)
        redactor = Redactor(b"\0" * 32, known, hosts)
        for file in evidence.files:
            redactor.counts.clear()
            with evidence.raw(file) as stream:
                redactor.copy(stream, cast("IO[bytes]", _Nowhere()))
            if redactor.counts:
                found[file.path] = dict(redactor.counts)
    return found


def _archive(evidence: Evidence, output: Path, redactor: Redactor, force: bool, hosts: bool) -> int:
    writer = Writer(output, _cleaned(_facts(evidence), redactor), force)
    try:
        for file in evidence.files:
            name = _text("/".join(map(member, file.path.split("/"))), redactor)
            with evidence.raw(file) as stream:
                kept = writer.add(name, stream, redactor)
            node = _text(file.node, redactor) if file.node else None
            collector = name.split("/")[2] if name.startswith("nodes/") and name.count("/") > 2 else "redact"
            writer.describe(kept, collector, node, rank=file.rank, pid=file.pid, truncated=file.truncated)
        manifest = evidence.manifest or {}
        writer.note(_cleaned([row for row in manifest.get("ledger", []) if isinstance(row, dict)], redactor))
        writer.nodes += _cleaned([one for one in manifest.get("nodes", []) if isinstance(one, dict)], redactor)
        writer.finish(complete=bool(manifest.get("complete", True)))
    except DiskFullError:  # the evidence itself is still there: half a copy helps nobody
        writer.discard()
        raise BundleError(f"{output}: no space left for it: name another place with -o") from None
    except BaseException:
        writer.discard()
        raise
    return len(evidence.files)


def _single(evidence: Evidence, output: Path, redactor: Redactor) -> int:
    part = output.with_name(f".{output.name}.writing")
    try:
        with part.open("wb") as sink, evidence.raw(evidence.files[0]) as stream:
            redactor.copy(stream, sink)
        part.replace(output)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BundleError(f"{output}: {error.strerror or error}") from None
    return 1


def _facts(evidence: Evidence) -> dict[str, Any]:
    """What an earlier manifest said of job and time; the rest is written anew."""
    dropped = {"schema", "ledger", "files", "nodes", "complete"}
    return {key: value for key, value in (evidence.manifest or {}).items() if key not in dropped}


def _known(evidence: Evidence, words: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Names to hide: those that were given, and the nodes that paths and the manifest name."""
    hosts = {file.node for file in evidence.files if file.node} | set(words.get("host", ()))
    plain = {host for host in hosts if not host.startswith("host-") or not _is_token(host)}
    short = {host.split(".")[0] for host in plain if not host[0].isdigit()}
    return {"host": plain | short, "user": set(words.get("user", ()))}


def _is_token(host: str) -> bool:
    digits = host.removeprefix("host-")
    return len(digits) == 8 and all(letter in "0123456789abcdef" for letter in digits)


def _key(name: str | None, paths: list[str]) -> bytes:
    """The key of the bundle that is redacted again, when it lies beside it; else a new one."""
    path = Path(name) if name else Path(f"{paths[0]}.key.json")
    try:
        return bytes.fromhex(json.loads(path.read_text(encoding="utf-8"))["key"])
    except (OSError, ValueError, KeyError, TypeError):
        if name:
            raise UsageError(f"{name}: not a key file of triage") from None
        return secrets.token_bytes(32)


def _text(text: str, redactor: Redactor) -> str:
    sink = BytesIO()
    redactor.copy(BytesIO(text.encode("utf-8", "replace")), sink)
    return sink.getvalue().decode("utf-8", "replace")


def _cleaned(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return _text(value, redactor)
    if isinstance(value, list):
        return [_cleaned(one, redactor) for one in value]
    if isinstance(value, dict):
        return {str(key): _cleaned(one, redactor) for key, one in value.items()}
    return value


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)
