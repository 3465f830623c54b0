"""All numbers of confidence in one place. Calibrated by benchmarks/calibration.py; never set per incident."""

from __future__ import annotations

from triage.model.base import Record
from triage.vocabulary import Specificity, Support

SURE, LIKELY = 0.70, 0.40  # verdict: diagnosed from SURE on, suspected from LIKELY on
TOLD = 0.2  # less is not worth a line: a warning that hints, and no more
UNDECIDED = 0.69  # highest value when the deciding evidence was not gathered

SUPPORT: dict[Support, float] = {"strong": 0.88, "moderate": 0.78, "weak": 0.42}
SPECIFICITY: dict[Specificity, float] = {"strong": 0.0, "weak": -0.30}
SYMPTOM = 0.42  # nothing but symptoms point there
WEAK_TOGETHER = 0.12  # a second, independent weak signature for the same cause
EXPLAINS = 0.04  # something it explains was seen (once)
FIRST = 0.04  # nothing else that failed was seen before it
RIVAL = -0.10  # another unexplained root cause of about the same strength
WARNING, INFO = -0.22, -0.40  # the signature itself says that it is not an error
SURVIVABLE = -0.12  # training normally goes on after it, and nothing shows that it did not
UNKNOWN = -0.08  # a question of the playbook's path had no answer


class Weighing(Record, frozen=True, kw_only=True):
    """What a hypothesis rests on; `reasons` are told with -v.

    degrades: the job went on, on a slower way; nothing says that this is not how it was meant to run.
    """

    support: Support
    specificity: Specificity = "strong"
    symptom_only: bool = False
    weak_count: int = 1
    explains: bool = False
    first: bool = False
    rival: bool = False
    severity: str = "fatal"
    survivable: bool = False
    degrades: bool = False
    unknown: int = 0
    undecided: bool = False


def confidence(weighing: Weighing) -> float:
    """A number from 0.05 to 0.97, two decimals."""
    value = SYMPTOM if weighing.symptom_only else SUPPORT[weighing.support] + SPECIFICITY[weighing.specificity]
    value += WEAK_TOGETHER * (min(weighing.weak_count, 3) - 1) if weighing.specificity == "weak" else 0.0
    value += EXPLAINS * weighing.explains + FIRST * weighing.first + RIVAL * weighing.rival
    value += {"warning": WARNING, "info": INFO}.get(weighing.severity, 0.0)
    value += SURVIVABLE * weighing.survivable + UNKNOWN * min(weighing.unknown, 3)
    if weighing.undecided or weighing.symptom_only or weighing.degrades or weighing.specificity == "weak":
        value = min(value, UNDECIDED)
    return round(min(max(value, 0.05), 0.97), 2)
