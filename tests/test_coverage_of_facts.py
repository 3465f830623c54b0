"""Every entry of the public fault catalogue that means something gives a signal that says so.

The catalogue is read where it lies, beside the checkout; without it the tests that need it are skipped. Lines made of
an entry's words go through the scanner and the parsers as a log does; what a whole document tells goes through
everything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml
from fact_lines import Entry, lines

from triage.bundle.opening import open_evidence
from triage.errors import TriageError
from triage.matching.fact_signals import match_facts
from triage.matching.loading import catalogue
from triage.matching.matcher import match
from triage.model.bundle import Chunk, Document, File
from triage.model.event import Fact
from triage.model.lines import Counted
from triage.parsers import parser, parsers, recognise
from triage.pipeline import understand

FACTS = Path(__file__).resolve().parents[2] / "shared" / "facts" / "facts.yaml"
ROLES = {"root-cause", "symptom", "consequence"}
WANTED = 0.98  # of the entries
LEAST, LEAST_OF_LAYER = 400, 15
LAYERS = ("gpu", "nvlink", "network", "nccl", "torch", "cuda", "memory", "storage", "scheduler", "framework", "host")

# Entries without a signal of their own, and why none is wanted.
NONE = {
    "fr-pg-status": "counters of a dump: analysis compares them over ranks; one dump alone means nothing",
    "fr-state-scheduled": "a state that every outstanding call of a healthy run has too",
    "fr-state-started": "a state that every outstanding call of a healthy run has too",
    "fr-p2p-unmatched": "a field that every send and receive has; analysis pairs them",
    "fr-time-gap": "two time stamps of every finished call; analysis takes their difference over ranks",
    "snap-pending-free": "a state of blocks that other streams use; without a failed request it is normal",
    "snap-segment-alloc-loop": "two actions of every trace; their number matters, and analysis counts it",
    "snap-private-pool": "a field of every segment since CUDA graphs are supported",
    "snap-fragmented": "a state of every cached block; the verdict needs sizes of a failed request",
    "snap-leak-growth": "two actions of every trace; the verdict needs growth over steps",
}


@cache
def entries() -> dict[str, Entry]:
    if not FACTS.is_file():
        pytest.skip("the fault catalogue is not beside the checkout")
    loaded = yaml.load(FACTS.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {entry["id"]: entry for entry in loaded if entry["role"] in ROLES}


@cache
def covered() -> dict[str, set[str]]:
    """For each entry of the catalogue the entries that signals on its lines cover."""
    found: dict[str, set[str]] = defaultdict(set)
    texts = {
        f"{name}/{number:03d}": text for name, entry in entries().items() for number, text in enumerate(lines(entry))
    }
    for path, covers in _signals(texts):
        found[path.split("/")[0]].update(covers)
    return found


def _signals(texts: dict[str, str]) -> list[tuple[str, list[str]]]:
    """(file, what its signals cover), each text being a file of its own."""
    data = {path: text.encode() + b"\n" for path, text in texts.items()}
    files = [File(path=path, size=len(raw), sources=recognise(raw, raw)) for path, raw in data.items()]
    matched = match(
        files,
        lambda file: iter([Chunk(file=file, data=data[file.path], lines=Counted(1, data[file.path]), last=True)]),
        catalogue(),
        parser,
        parsers(),
    )
    facts = [fact for file in files for fact in _facts(file, data[file.path])]
    signals = [*matched.signals, *match_facts(facts, catalogue())]
    return [(signal.event.where.file, signal.signature.covers) for signal in signals]


def _facts(file: File, data: bytes) -> list[Fact]:
    document = Document(file=file, data=data, unpickle=_refused)
    sources = [source for source in file.sources if hasattr(parser(source), "facts")]
    try:
        return [fact for source in sources for fact in parser(source).facts(document)]
    except ValueError:  # a line is rarely a whole document
        return []


def _refused(data: bytes) -> object:
    raise ValueError("no pickle here")


def _understood(name: str, folder: Path) -> bool:
    """Does everything together, analyses included, see the entry in its lines?"""
    for number, text in enumerate(lines(entries()[name])[:12]):
        path = folder / f"{name}-{number}.log"
        path.write_text(text + "\n", encoding="utf-8")
        try:
            with open_evidence([str(path)], recognise=recognise) as evidence:
                signals = understand(evidence).signals
        except TriageError:
            continue
        if any(name in placed.signal.signature.covers for placed in signals):
            return True
    return False


@pytest.mark.long
def test_nearly_every_entry_gives_a_signal_that_covers_it(tmp_path: Path) -> None:
    missing = [name for name in entries() if name not in covered()[name]]
    missing = [name for name in missing if name in NONE or not _understood(name, tmp_path)]
    assert sorted(set(missing) - set(NONE)) == [], "write a signature, or say in NONE why none is wanted"
    assert sorted(set(NONE) - set(missing)) == [], "these are covered now: take them out of NONE"
    assert len(missing) <= (1 - WANTED) * len(entries())


def test_only_entries_of_the_catalogue_are_covered() -> None:
    entries()
    known = {entry["id"] for entry in yaml.load(FACTS.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)}
    assert {name for signature in catalogue().values() for name in signature.covers} <= known


def test_there_are_enough_signatures() -> None:
    layers = Counter(signature.layer for signature in catalogue().values())
    assert sum(layers.values()) >= LEAST
    assert {layer: layers[layer] for layer in LAYERS if layers[layer] < LEAST_OF_LAYER} == {}
