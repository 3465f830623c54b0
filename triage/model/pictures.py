"""What the page draws beside the report's text. Not part of the JSON contract; every part may be absent."""

from __future__ import annotations

from typing import Literal

from triage.model.base import Record
from triage.model.event import Where

State = Literal["culprit", "fault", "waits", "quiet"]
BlockState = Literal["active", "pending", "inactive", "free", "mixed", "unknown"]


class Point(Record, frozen=True, kw_only=True):
    """A moment of the job, in seconds on its time line, as a person reads it, and the line that tells it."""

    at: float
    label: str
    where: Where


class Span(Record, frozen=True, kw_only=True):
    """From where to where the job ran.

    slowed: the part of each step that a straggler costs, 0 to 1. well: where something says by itself that it is well.
    """

    ranks: int | None = None
    start: Point | None = None
    last_progress: Point | None = None
    last_step: int | None = None
    end: Point | None = None
    first_failure: Point | None = None
    slowed: float | None = None
    well: Where | None = None


class Heat(Record, frozen=True, kw_only=True):
    """Times of a part of the step: `levels[i][j]` is how rank `ranks[i]` at step `steps[j]` compares to the others.

    levels: 0 is unknown; 1 to 15 stand on a logarithmic scale on which 8 is the median of all ranks at that step, and
    each level is a factor of 2 ** (1/4); 1 and 15 hold all beyond. medians: ms of the median rank at each step.
    """

    phase: str
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    levels: tuple[bytes, ...]
    medians: tuple[float, ...]
    culprits: tuple[int, ...] = ()
    places: dict[int, Where] = {}


class Waiting(Record, frozen=True, kw_only=True):
    """Ranks that wait in the same operation."""

    op: str
    seq: str
    group: str
    ranks: tuple[int, ...]
    where: Where


class Blocker(Record, frozen=True, kw_only=True):
    """A rank that others wait for: how (the word of the fact `hang.culprit`) and the sentence that says why."""

    rank: int
    kind: str
    why: str
    where: Where


class Holder(Record, frozen=True, kw_only=True):
    """A call site that holds device memory."""

    bytes: int
    blocks: int
    place: str


class Block(Record, frozen=True, kw_only=True):
    """Neighbouring blocks of device memory that are alike. Sizes in bytes; holder: index into the map's holders.

    active: in use. pending: freed, awaited by a stream. inactive: free inside a segment in use. free: in a wholly free
    segment. mixed: small ones of several kinds. unknown: the snapshot does not tell.
    """

    state: BlockState
    size: int
    used: int = 0
    holder: int | None = None


class Segment(Record, frozen=True, kw_only=True):
    """A piece of device memory that the allocator got from the driver, with what lies in it, in order."""

    size: int
    blocks: tuple[Block, ...]
    address: int | None = None


class MemoryMap(Record, frozen=True, kw_only=True):
    """The largest segments of a device in the order of addresses; left, left_bytes: those that are not among them."""

    segments: tuple[Segment, ...]
    holders: tuple[Holder, ...] = ()
    left: int = 0
    left_bytes: int = 0


class Memory(Record, frozen=True, kw_only=True):
    """One device's memory by the state of its blocks, in bytes."""

    gpu: str
    where: Where
    reserved: int
    allocated: int
    cached_free: int
    split_waste: int
    rounding: int
    largest_free: int | None = None
    asked: int | None = None
    total: int | None = None
    holders: tuple[Holder, ...] = ()
    map: MemoryMap | None = None


class Seat(Record, frozen=True, kw_only=True):
    """A place where a rank runs, or a GPU without a known rank."""

    label: str
    state: State
    rank: int | None = None
    note: str = ""


class Node(Record, frozen=True, kw_only=True):
    """A node with its seats; `note` names a link, port or mount of it that is at fault."""

    name: str
    state: State
    seats: tuple[Seat, ...] = ()
    note: str = ""


class Demoted(Record, frozen=True, kw_only=True):
    """A signal that could have been a cause and was found not to be: by which rule, and what explains it."""

    signature: str
    title: str
    rule: str
    by: str
    why: str
    where: Where
    count: int = 1


class Pictures(Record, frozen=True, kw_only=True):
    """Everything drawn.

    evidence: a digest of what was opened (names, sizes, last lines): the same for the same evidence.
    titles: of the signatures seen, by id. contexts: lines around each cited line.
    """

    evidence: str = ""
    span: Span = Span()
    heat: Heat | None = None
    waiting: tuple[Waiting, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    memory: tuple[Memory, ...] = ()
    nodes: tuple[Node, ...] = ()
    demoted: tuple[Demoted, ...] = ()
    titles: dict[str, str] = {}
    contexts: dict[tuple[str, int], tuple[tuple[int, str], ...]] = {}
