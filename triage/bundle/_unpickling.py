"""The child that loads pickles: run as a script by workers.py, imports nothing of triage.

Standard input: CPU seconds, two lengths, then that many bytes of a wish (MessagePack of model.bundle.Rows, or nothing)
and of the pickle, again and again. Standard output: a status byte, a length and the payload: `+` and MessagePack, or
`-` and the reason. The unpickler refuses every class and persistent id, so that a pickle can only build plain data; the
limits make that cheap. What is no finite tree of plain data is refused.
"""

import gc
import io
import pickle
import struct
import sys
from typing import Any, NoReturn

HEAD = struct.Struct(">IIQ")
REPLY = struct.Struct(">cQ")
PEEKED = 1 << 20


class Plain(pickle.Unpickler):
    """Loads numbers, texts, bytes and containers of them, nothing else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Always refuses."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}"[:200])

    def persistent_load(self, pid: object) -> NoReturn:
        """Always refuses."""
        raise pickle.UnpicklingError("it refers to an object outside of itself")


def confine(memory: int) -> None:
    """Bound memory, forbid new files and processes. Windows has nothing of it, and macOS ignores the first."""
    try:
        import resource
    except ImportError:
        return
    bounds = {"RLIMIT_AS": memory, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0, "RLIMIT_NPROC": 0}
    for name, bound in bounds.items():
        try:
            resource.setrlimit(getattr(resource, name), (bound, bound))
        except (AttributeError, ValueError, OSError):
            continue


def allow(seconds: int) -> None:
    """Let this much more CPU time pass before the system ends the process."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def rows(value: Any, wish: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What remains without the records, and the records as rows, shorter where the rare columns are not wanted."""
    whole = isinstance(value, (list, tuple))
    records = value if whole else value.get(wish["of"]) if isinstance(value, dict) else None
    if not isinstance(records, (list, tuple)):
        return value, []
    (key, usual), columns = wish["unless"], wish["columns"]
    every = columns + wish["rare"]
    table = [
        tuple(map(item.get, columns if key in item and item[key] == usual else every))
        for item in records
        if isinstance(item, dict)
    ]
    return {**({} if whole else value), wish["of"]: []}, table


def answer(data: bytes, wish: Any, encode: Any) -> tuple[bytes, bytes]:
    """Status and payload. Every way in which bytes can fail to be plain data ends in a reason."""
    try:
        # A reader that can be peeked into spares the unpickler a Python call for each opcode: half of the time.
        value = Plain(io.BufferedReader(io.BytesIO(data), PEEKED)).load()
        return b"+", encode(rows(value, wish) if wish else value)
    except MemoryError:
        reason = "it needs too much memory"
    except RecursionError:
        reason = "it nests too deeply, or holds itself"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    gc.collect()  # what holds itself would stay
    return b"-", reason.encode("utf-8", "replace")[:500]


def main() -> None:
    """Serve until the input ends."""
    sys.path.append(sys.argv[1])
    from msgspec import msgpack

    gc.disable()  # plain data that can be answered holds no cycles
    encode = msgpack.Encoder().encode
    confine(int(sys.argv[2]))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(HEAD.size)) == HEAD.size:
        seconds, asked, length = HEAD.unpack(head)
        allow(seconds)
        wish = msgpack.decode(source.read(asked)) if asked else None
        status, payload = answer(source.read(length), wish, encode)
        sink.write(REPLY.pack(status, len(payload)))
        sink.write(payload)
        sink.flush()


if __name__ == "__main__":
    main()
