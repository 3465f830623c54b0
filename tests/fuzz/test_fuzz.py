"""Inputs that once broke something, and fresh ones at each run: no exception, no input that takes long or much memory.

The seed is of this run and stands in a failure's message: TRIAGE_FUZZ_SEED repeats it, `python -m benchmarks.fuzz`
tries more.
"""

from __future__ import annotations

import json
import os
import secrets
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, check, kept, made, targets
from triage.parsers import parsers

# Inputs of a parser; a target that takes longer has its share of them. .ci/run asks for 2,000.
FRESH = int(os.environ.get("TRIAGE_FUZZ_INPUTS", "250"))
SEED = os.environ.get("TRIAGE_FUZZ_SEED") or secrets.token_hex(4)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=20,
)
DOCUMENTS = [name for name, module in parsers().items() if hasattr(module, "facts")]


@pytest.mark.parametrize("name", targets())
def test_inputs_that_were_kept(name: str) -> None:
    for data in kept(targets()[name]):
        check(targets()[name], data)


def test_every_parser_has_an_example() -> None:
    """Without one (fixtures/parsers/<source>/, or examples of its signatures) nothing can be mutated."""
    assert [name for name in parsers() if not any(targets()[name].samples)] == []


def test_what_was_kept_belongs_to_a_target() -> None:
    assert {path.name for path in SEEDS.iterdir()} <= set(targets())


@pytest.mark.parametrize("name", targets())
def test_fresh_inputs(name: str) -> None:
    target = targets()[name]
    target.run(target.samples[0])  # imports and compiles what the first input would be charged with
    for number in range(max(3, int(FRESH * target.share))):
        data = made(target, SEED, number)
        try:
            check(target, data)
        except Exception as error:
            pytest.fail(
                f"TRIAGE_FUZZ_SEED={SEED}, input {number} of {name}: {type(error).__name__}: {error}\n{data!r:.500}"
            )


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES, lead=st.sampled_from(["", "{", '{"entries": ', '{"segments": [', '{"traceEvents": [']))
def test_trees_of_any_shape(name: str, tree: Any, lead: str) -> None:
    check(targets()[name], (lead + json.dumps(tree)).encode())


def test_a_fault_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check fails for what raises and for what takes too long: it is no test that cannot fail."""
    monkeypatch.setattr("tests.fuzz.targets.SECONDS", 0.01)
    target = targets()["kineto"]
    for run, error in ((lambda _: {}["x"], KeyError), (lambda _: sum(range(10**6)), AssertionError)):
        with pytest.raises(error):
            check(target._replace(run=run), b"")
