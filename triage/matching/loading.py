"""The catalogue: every signature, by id."""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from pathlib import Path

import msgspec

from triage import __version__, content
from triage.errors import ContentError
from triage.matching import cache as stored
from triage.model.signature import Signature


@cache
def catalogue() -> dict[str, Signature]:
    """All signatures that are not retired, by id, sorted. Raises ContentError with every fault of every file.

    Kept in the cache as they were read, under the digest of their files: a thousand small files take ten times as long.
    """
    key = fingerprint("catalogue")
    if (known := stored.read(key)) is not None:
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):  # stored by another version
            return msgspec.msgpack.decode(known, type=dict[str, Signature])
    found = _read()
    stored.write(key, msgspec.msgpack.encode(found))
    return found


def fingerprint(kind: str) -> str:
    """Name in the cache of something that is made from all signatures by this version of their model."""
    fields = [(each.name, str(each.type)) for each in msgspec.structs.fields(Signature)]
    return hashlib.sha256(f"{kind} {__version__} {content.fingerprint('signatures')} {fields}".encode()).hexdigest()


def _read() -> dict[str, Signature]:
    faults, found = [], {}
    for path, signature in content.load_all("signatures", Signature):
        if signature.id != identity(path):
            faults.append(f"{path}:1: id {signature.id!r} must be the path below signatures/, {identity(path)!r}")
        found[signature.id] = signature
    if faults:
        raise ContentError(faults)
    return {name: found[name] for name in sorted(found) if found[name].status != "retired"}


def identity(path: Path) -> str:
    """`.../signatures/gpu/foo.yaml` -> `gpu/foo`."""
    return f"{path.parent.name}/{path.stem}"
