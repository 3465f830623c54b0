"""Step lines and trainer messages: Megatron, NeMo, DeepSpeed, HF Trainer, Lightning, torchtitan and others."""

from __future__ import annotations

import re
from itertools import chain, islice

from triage.model.bundle import Window
from triage.model.event import Event
from triage.parsers import _process
from triage.parsers._prefix import split

SOURCE = "training_log"
BEFORE, AFTER = 0, 4

_LOSS = r"(?P<loss>[-+]?\d[\d.eE+-]{0,20}|[-+]?nan|NaN|[-+]?inf|Inf)"
# A progress bar of the training itself: bars of downloads, shards and tokenizers have a description before them.
_HEAD = r"(?:^|\][: ]{1,2}|\) |\dZ |^[\w.-]{1,60}\d: )\s{0,6}(?:(?:Epoch|Train|train|Step|step|Iter)[^\n%]{0,40})?"
_BAR = _HEAD + r"\d{1,3}%\|[^|\n]{0,160}\|"
_COUNT = r" {1,3}(?P<step>\d+)/(?P<total>\d+) \[[^\]\n]{0,80}?"
_MEGATRON = r"iteration\s{1,10}(?P<step>\d+)/\s{0,10}(?P<total>\d+) \|[^\n]{0,200}?elapsed time per iteration "
_OPEN = r"[\]'\":=#|( ]{0,4}\[?"
_TOLD = (
    r"\b[^\n]{0,200}?(?:(?:[Ll]oss|LOSS)[^\n\d]{0,24}?(?:\d|nan\b|NaN|inf\b)"
    r"|\d ?(?:samples?|images?|imgs?|tokens?|tok|seqs?|sequences|examples|frames|steps)/s)"
)
_STEPS = (
    # Megatron-LM, Megatron-DeepSpeed
    _MEGATRON + r"\(ms\): (?P<step_ms>[\d.]+)(?:[^\n]{0,300}?lm loss: " + _LOSS + ")?",
    _MEGATRON + r"\(s\): (?P<step_s>[\d.]+)(?:[^\n]{0,300}?lm loss: " + _LOSS + ")?",
    # NeMo 2, NeMo 1
    r"iteration (?P<step>\d+)/(?P<total>\d+) \| [^\n]{0,400}?train_step_timing in s: (?P<step_s>[\d.]+)",
    r"global_step=(?P<step>\d+)(?:\.0)?, [^\n]{0,160}?train_step_timing in s=(?P<step_s>[\d.]+)",
    # DeepSpeed: timer, step report, pipeline engine
    r"\d/(?:global_step=)?(?P<step>\d+), RunningAvgSamplesPerSec=",
    r"\[Rank \d+\] step=(?P<step>\d+), skipped=\d+",
    r"steps: (?P<step>\d+) loss: " + _LOSS + r" iter time \(s\): (?P<step_s>[\d.]+)",
    # torchtitan
    r"step:\s{1,6}(?P<step>\d+)\s{1,4}loss: {1,4}" + _LOSS,
    # nanoGPT
    r"iter (?P<step>\d+): loss " + _LOSS + r", time (?P<step_ms>[\d.]+)ms",
    # HF Trainer's dicts, with values in quotes since 4.57
    r"\{'loss': '?" + _LOSS + r"'?, (?:'[\w()/. -]{1,40}': [^,}]{1,40}, ){0,16}'epoch': '?[\d.]+",
    # tqdm: HF Trainer, Lightning
    _BAR + _COUNT + r"(?P<step_s>[\d.]+) ?s/(?:it|step|batch|iter)",
    _BAR + _COUNT + r"[\d.]+ ?(?:it|step|batch|iter)/s",
    # fairseq
    r"\bepoch \d+:\s{1,8}(?P<step>\d+) / (?P<total>\d+) (?:[a-z_0-9]+=|loss)",
    r"num_updates['\": ]{1,5}(?P<step>\d+)",
    # torchvision references, MXNet, timm, and `Epoch: [0][ 411/1736]`
    r"Epoch: \[\d+\]\s{0,3}\[ {0,6}(?P<step>\d+)/(?P<total>\d+)\]"
    r"(?:[^\n]{0,300}?\b[Tt]ime:?\s{1,6}(?P<step_s>[\d.]+))?",
    r"Epoch\[\d+\] Batch ?\[(?P<step>\d+)\]\s{1,4}Speed: [\d.]+ samples/sec",
    r"Train: \d+ \[ {0,6}(?P<step>\d+)/(?P<total>\d+) ",
    # the MNIST example of PyTorch
    r"Train Epoch: \d+ \[ {0,6}(?P<step>\d+)/(?P<total>\d+) [^\]\n]{0,12}\]\s{1,6}Loss: " + _LOSS,
    r"\bTest set: Average loss: [\d.]",
    r"\* (?:Acc|Prec)@1:? {1,3}[\d.]{1,10} ",
    # MetricLogger of DETR, MAE, LAVIS, with any head
    r"\w  ?\[ {0,6}(?P<step>\d+)/(?P<total>\d+)\]\s{1,4}eta: [\d:]",
    # mmcv, mmengine; detectron2
    r"Epoch(?:\(train\))? {1,3}\[\d+\]\[ {0,6}(?P<step>\d+)/(?P<total>\d+)\]"
    r"(?:[^\n]{0,300}?\btime: (?P<step_s>[\d.]+))?",
    r"\biter: (?P<step>\d+) {1,3}total_loss: " + _LOSS + r"(?:[^\n]{0,600}? time: (?P<step_s>[\d.]+))?",
    # ultralytics: epochs
    r"^\s{0,8}(?P<step>\d{1,5})/(?P<total>\d{1,5})\s{1,8}[\d.]+G\s",
    # BasicSR; loops that tell loading beside the whole
    r"\[epoch: {0,4}\d+, iter: {0,9}[\d,]{1,11}, lr:",
    r"(?:Test|Train|Val|Iter): \[ {0,6}(?P<step>\d+)/(?P<total>\d+)\]\s{1,4}Data \d[^\n]{0,60} Batch \d",
    # PyTorch's own examples of distributed training; TensorFlow's estimators
    r"\[?GPU:? ?\d{1,3}\]?(?: \|)? Epoch:? (?P<step>\d{1,6}) \| Batchsize: \d+ \| Steps: \d+",
    r"\bloss = [\d.]{1,20}, step = (?P<step>\d{1,9}) \([\d.]{1,12} sec\)",
    # MaxText; tf_cnn_benchmarks; OpenNMT; verl; llm-foundry; OLMo; ESPnet
    r"completed step: (?P<step>\d+), seconds: (?P<step_s>[\d.]+)",
    r"(?:^|: )(?P<step>\d+)\s{1,8}images/sec: [\d.]{1,12} \+/- ",
    r"\bStep (?P<step>\d+)/ {0,8}(?P<total>\d+); {1,3}acc: ",
    r"\bstep:(?P<step>\d+) - [\w/]{1,60}:",
    r"\[batch=(?P<step>\d+)/(?P<total>\d+)\]",
    r"logging_writer\.py:\d+\] \[(?P<step>\d+)\] ",  # CLU, of JAX
    r"\[(?:train|step)[:=](?P<step>\d+)(?:/(?P<total>\d+))?, ?epoch",
    r"^\d{1,6}\|(?P<step>\d{1,9})\|Loss: \d",  # torchtune
    r"\b\d{1,6}epoch:train:\d{1,9}-(?P<step>\d{1,9})batch: ",
    # Swin and kin; OpenCLIP; the word language model; the CIFAR tutorial
    r"Train: \[\d+/\d+\]\[ {0,8}(?P<step>\d+)/(?P<total>\d+)\]",
    r"Train Epoch: \d+ \[ {0,9}(?P<step>\d+)/(?P<total>\d+) \(\d{1,3}%\)\]",
    r"\| {1,8}(?P<step>\d+)(?:/ {0,8}(?P<total>\d+))? batches \|",
    r"\[\d+, {1,8}(?P<step>\d+)\] {1,4}(?:train_)?loss",
    # Keras, as text and as bars; TensorFlow's estimators
    r"^\s{0,4}(?P<step>\d{1,7})/(?P<total>\d{1,7}) (?:\[[=>.]{10,60}\]|━{10,60})",
    r"global_step/sec: \d",
    # Darknet, StyleGAN, XGBoost and LightGBM, stable-baselines, MLPerf, Gluon, MindSpore, nanotron
    r"^\s{0,4}(?P<step>\d{1,8}): [\d.]{1,20}, [\d.]{1,20} avg loss",
    r"\btick (?P<step>\d{1,8})\s{1,8}kimg ",
    r"^\[(?P<step>\d{1,7})\]\s{1,4}(?:train|valid|validation|test|eval)[\w']{0,20}-\w{2,20}: ?\d",
    r"\|\s{1,6}total_timesteps\s{1,12}\|\s{1,4}(?P<step>\d{1,12})\s",
    r":::MLLOG [^\n]{0,200}\"key\": \"(?:tracked_stats|train_loss|reduced_train_loss|throughput)\"",
    r"\[Epoch \d{1,6}\] (?:training: |speed: \d)",
    r"[Ee]poch time: {1,3}[\d.]{1,14} ?ms, per step time: (?P<step_ms>[\d.]+)",
    r"iteration: (?P<step>\d+) / (?P<total>\d+) \| consumed_tokens: ",
    # a loss scaler on its way down from 2^32: each line is a step, and this far up nothing is lost
    r"OVERFLOW! Rank \d+ Skipping step\. Attempted loss scale: [\d.]{6,20}, reducing to \d{6}",
    # everybody's own
    r"\b(?:global[_ ]step|train[_ ]step|[Ss]tep|iter|iteration|update|batch)[ :=#]{1,6}(?P<step>\d{1,9})"
    r"(?:/(?P<total>\d{1,9}))?[\]:,|)]{0,2} [^\n]{0,80}?\b(?:[Ll]oss|lm_loss|train_loss)[ :=]{1,3}" + _LOSS +
    r"(?:[^\n]{0,80}?\bstep_time(?:_ms)?[ :=]{1,3}(?P<step_ms>[\d.]+))?",
    # a counter (`at iteration` is an evaluation), and behind it a loss or a rate; that of epochs is none of steps
    r"(?:^|[^t] |[^\w ])(?:[Ss]tep|STEP|[Ii]t|[Ii]ter|[Ii]teration|[Uu]pdate)\b" + _OPEN + r"(?P<step>\d{1,9})" + _TOLD,
    r"\b[Bb]atch[\[ :=#]{1,3}(?P<step>\d{1,9})/(?P<total>\d{1,9})" + _TOLD,
    r"\b[Ee]poch\b" + _OPEN + r"\d{1,6}" + _TOLD,
)  # fmt: skip
MARKS = (
    *(("step", regex) for regex in _STEPS),
    ("end", r"'train_runtime': '?[\d.]+"),
    ("end", r"\[after training is done\]|after training is done"),
    ("end", r"`?Trainer\.fit`? stopped: `?max_(?:steps|epochs|time)"),
    ("end", r"[Tt]raining (?:is )?(?:complete[d.!]?|finished|done)\b"),
    ("end", r"Training completed\. Do not forget to share your model"),
    ("end", r"[Ff]inal (?:(?:test|val|validation|eval) )?(?:accuracy|acc|loss|score|mAP|F1|perplexity)\b[^\n]{0,12}\d"),
    ("end", r"\b[Tt]est [Rr]esults?: ?\{"),
    ("end", r"\| {0,12}Tasks {0,12}\| {0,4}Version {0,4}\|"),  # lm-eval
    ("end", r"Run finished \d+ round\(s\) in [\d.]+ ?s"),  # Flower
    ("end", r"Application shutdown complete\."),  # uvicorn: asked to stop, and stopped
    ("end", r"\bdone training\b|epochs completed in [\d.]+ hours"),
    ("end", r"launch\.py:\d+:main\] Process \d+ exits successfully"),  # DeepSpeed's launcher
    ("end", r"Loss for final step: [\d.]"),
    ("end", r"wandb: Synced (?:\d+ W&B file|[\w-]{3,60}: )"),  # Python came to its end by itself
    ("end", r"\b[Bb]est (?:[Hh]yper-?[Pp]arameters|trial)(?: [Ff]ound)?:"),  # a search for hyperparameters
    ("well", r"init engine \(profile, create kv cache, warmup model\) took"),  # vLLM
    ("well", r"[Aa]vg generation throughput: [1-9]\d{0,6}\.\d tokens/s"),  # vLLM: the engine answers
    ("well", r"Processed prompts: +100%\|"),  # vLLM, offline
    ("well", r"Decode batch[^\n]{0,200}gen throughput \(token/s\): [1-9]"),  # SGLang
    ("well", r"\"(?:POST|GET) /\S{1,200} HTTP/[12][.01]{0,2}\" 200\b"),  # uvicorn: it answers
    ("end", r"\bJob '\w{1,60}' succeeded\b"),  # Ray
    ("restart", r"Resuming (?:training )?from (?:checkpoint|global step|step|epoch)"),
)
_OWN = re.compile(
    rb"elapsed time per iteration|RunningAvgSamplesPerSec|'train_runtime'|\{'loss': |train_step_timing in s|global_step"
    rb"|\biter(?:ation)? \d+[:/ ]|\bstep[ :=]{1,20}\d{1,20}[^\n]{0,60}loss|\d%\|[^\n]{0,160}\[\d+:\d|\[deepspeed\]"
    rb"|DeepSpeed info|lm loss|Epoch:? ?\[?\d+\]?|Trainer\.fit|GLOBAL_RANK|\bloss[:= ]+\d"
)


_NEXT = re.compile(r"\biteration\s{1,10}\d+/|\belapsed\b[^|]{0,40}iteration\s{1,10}\d")
_PART = re.compile(
    r"\s{0,4}(?:rate|size|loss|norm|scale|samples|tokens|iteration|time|seqlen|per|of)\b[^|\n]{0,40}[:|]"
)
SIGNS = (_OWN,)


def recognises(head: bytes, tail: bytes) -> int:
    """2 when it holds step lines, 1 for a single one."""
    seen = chain(_OWN.finditer(head), _OWN.finditer(tail) if tail != head else ())
    return sum(1 for _ in islice(seen, 2))


def parse(window: Window) -> Event:
    """The line; a step line that was broken over several is joined."""
    return _process.event(window, SOURCE, "\n".join(_lines(window)))


def _lines(window: Window) -> list[str]:
    first = split(window.lines[window.hit])
    out = [first.rest]
    for line in window.lines[window.hit + 1 : window.hit + 1 + AFTER]:
        other = split(line)
        ended = out[-1].rstrip().endswith("|") and "|" in other.rest
        goes_on = ended or other.rest.lstrip().startswith("|") or _PART.match(other.rest)
        if other.owner != first.owner or not goes_on or _NEXT.search(other.rest):
            break
        out.append(other.rest)
    return out
