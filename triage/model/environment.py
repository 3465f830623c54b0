"""Environment variables that change how a GPU training job behaves. Written in YAML in triage/data/environment.yaml."""

from __future__ import annotations

from triage.model.base import Spec


class Variable(Spec, frozen=True, kw_only=True):
    """One environment variable.

    name: as exported.
    does: what it changes, in one sentence.
    default: what holds when it is unset; absent when that is not known for sure.
    since: library and first release that knows the name, where that was looked up.
    harm: what it can do wrong; absent when nothing is known.
    harmful: a regular expression that the whole value must match for the harm to apply; absent: no value alone tells.
    when: where setting it is right.
    """

    name: str
    does: str
    default: str | None = None
    since: str | None = None
    harm: str | None = None
    harmful: str | None = None
    when: str | None = None
