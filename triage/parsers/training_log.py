"""Step lines and trainer messages: Megatron, NeMo, DeepSpeed, HF Trainer, Lightning, torchtitan and others."""

from __future__ import annotations

import re

from triage.model.bundle import Window
from triage.model.event import Event
from triage.parsers import _process
from triage.parsers._prefix import split

SOURCE = "training_log"
BEFORE, AFTER = 0, 4

_STEPS = (
    # Megatron-LM, Megatron-DeepSpeed
    r"iteration\s{1,10}(?P<step>\d+)/\s{0,10}(?P<total>\d+) \|[^\n]{0,200}?elapsed time per iteration \(ms\): (?P<step_ms>[\d.]+)",
    r"iteration\s{1,10}(?P<step>\d+)/\s{0,10}(?P<total>\d+) \|[^\n]{0,200}?elapsed time per iteration \(s\): (?P<step_s>[\d.]+)",
    # NeMo 2
    r"iteration (?P<step>\d+)/(?P<total>\d+) \| [^\n]{0,400}?train_step_timing in s: (?P<step_s>[\d.]+)",
    # DeepSpeed timer, DeepSpeed step, pipeline engine
    r"/global_step=(?P<step>\d+), RunningAvgSamplesPerSec=",
    r"\[Rank \d+\] step=(?P<step>\d+), skipped=\d+",
    r"steps: (?P<step>\d+) loss: (?P<loss>\S{1,20}) iter time \(s\): (?P<step_s>[\d.]+)",
    # torchtitan
    r"step:\s{1,6}(?P<step>\d+)\s{1,4}loss: {1,4}(?P<loss>\S{1,20})",
    # nanoGPT
    r"iter (?P<step>\d+): loss (?P<loss>\S{1,20}), time (?P<step_ms>[\d.]+)ms",
    # HF Trainer dicts, also Accelerate's
    r"\{'loss': '?(?P<loss>[^,'}]{1,24})'?, (?:'[a-z_]+': [^,}]{1,30}, ){0,8}'epoch': '?[\d.]+",
    # tqdm: HF Trainer, Lightning
    r"\d{1,3}%\|[^|\n]{0,120}\| {1,3}(?P<step>\d+)/(?P<total>\d+) \[[^\]\n]{0,80}?(?P<step_s>[\d.]+) ?s/[a-z]{2,9}",
    r"\d{1,3}%\|[^|\n]{0,120}\| {1,3}(?P<step>\d+)/(?P<total>\d+) \[[^\]\n]{0,80}?[\d.]+ ?[a-z]{2,9}/s",
    # fairseq
    r"\bepoch \d+:\s{1,8}(?P<step>\d+) / (?P<total>\d+) (?:[a-z_0-9]+=|loss)",
    r"num_updates['\": ]{1,5}(?P<step>\d+)",
    # torchvision references, timm, and `Epoch: [0][ 411/1736]`
    r"Epoch: \[\d+\]\s{0,3}\[ {0,6}(?P<step>\d+)/(?P<total>\d+)\]",
    r"Train: \d+ \[ {0,6}(?P<step>\d+)/(?P<total>\d+) ",
    # everybody's own
    r"\b(?:global[_ ]step|train[_ ]step|step|iter|iteration|update|batch)[ :=#]{1,3}(?P<step>\d{1,9})"
    r"(?:/(?P<total>\d{1,9}))?"
    r"[\]:,|)]{0,2} [^\n]{0,80}?\b(?:loss|lm_loss|train_loss)[ :=]{1,3}(?P<loss>\S{1,20})"
    r"(?:[^\n]{0,80}?\bstep_time(?:_ms)?[ :=]{1,3}(?P<step_ms>[\d.]+))?",
)
MARKS = (
    *(("step", regex) for regex in _STEPS),
    ("end", r"'train_runtime': '?[\d.]+"),
    ("end", r"\[after training is done\]|after training is done"),
    ("end", r"`?Trainer\.fit`? stopped: `?max_(?:steps|epochs|time)"),
    ("end", r"[Tt]raining (?:is )?(?:complete[d.!]?|finished|done)\b"),
    ("end", r"Training completed\. Do not forget to share your model"),
    ("end", r"\bdone training\b|epochs completed in [\d.]+ hours"),
    ("restart", r"Resuming (?:training )?from (?:checkpoint|global step|step|epoch)"),
)
_OWN = re.compile(
    rb"elapsed time per iteration|RunningAvgSamplesPerSec|'train_runtime'|\{'loss': |train_step_timing in s|global_step"
    rb"|\biter(?:ation)? \d+[:/ ]|\bstep[ :=]+\d+[^\n]{0,60}loss|\d+%\|[^\n]{0,160}\[\d+:\d+|\[deepspeed\]"
    rb"|DeepSpeed info|lm loss|Epoch:? ?\[?\d+\]?|Trainer\.fit|GLOBAL_RANK|\bloss[:= ]+\d"
)


def recognises(head: bytes, tail: bytes) -> int:
    """2 when it holds step lines, 1 for a single one."""
    return min(len(_OWN.findall(head)) + (len(_OWN.findall(tail)) if tail != head else 0), 2)


def parse(window: Window) -> Event:
    """The line; a step line that was broken over several is joined."""
    return _process.event(window, SOURCE, "\n".join(_lines(window)))


def _lines(window: Window) -> list[str]:
    first = split(window.lines[window.hit])
    out = [first.rest]
    for line in window.lines[window.hit + 1 : window.hit + 1 + AFTER]:
        other = split(line)
        goes_on = other.rest.lstrip().startswith("|") or out[-1].rstrip().endswith("|")
        if other.owner != first.owner or not goes_on or "iteration " in other.rest:
            break
        out.append(other.rest)
    return out
