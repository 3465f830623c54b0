"""The recorder: what makes a training job diagnosable, from outside (`triage record -- CMD`) or by hand (StepRecorder).

launch.py starts the job. The rest runs inside the user's training process: standard library, Python 3.8 and later,
torch inside functions only, nothing else of triage.
"""

from __future__ import annotations

from triage.recorder.steps import StepRecorder

__all__ = ["StepRecorder"]
