"""Loads triage's recorder into a rank, then runs the site's own sitecustomize. Its folder alone is on PYTHONPATH.

Python runs this file at start-up of each process of the job. It does nothing but wait for `import torch`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name: str, file: str) -> ModuleType:
    """A module of the recorder by its path: triage itself need not be importable here."""
    path = os.path.join(os.path.dirname(HERE), file)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _record() -> None:
    steps = _load("_triage_steps", "steps.py")
    hooks = _load("_triage_recorder", "hooks.py")
    hooks.install(steps.StepRecorder(manual=False), steps)


def _site() -> None:
    """The sitecustomize that this one stands before, if there is one."""
    path, own = list(sys.path), sys.modules.pop("sitecustomize", None)
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != HERE]
    try:
        if importlib.util.find_spec("sitecustomize") is not None:
            importlib.import_module("sitecustomize")
    finally:
        sys.path[:] = path
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


def _note(text: str) -> None:
    """Why the recorder is not there, beside the recording."""
    path = os.path.join(os.environ["TRIAGE_RECORD_DIR"], "recorder.log")
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
        log.write(text + "\n")


if os.environ.get("TRIAGE_RECORD_DIR"):
    try:
        _record()
    except Exception as error:  # the recorder's hooks may catch everything: the job starts in any case
        _note(f"not loaded: {type(error).__name__}: {error}")
_site()
