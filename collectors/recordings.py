"""What `triage record` wrote: step times, profiles, dumps."""

import _ranks

NAME = "recordings"
TITLE = "Recordings of triage record"
NEEDS = ()
SECONDS = 20


def collect(run):
    """The folders that ranks name, and triage-record-* where they work."""
    patterns = [folder + "/**" for folder in _ranks.values(run, "TRIAGE_RECORD_DIR")]
    patterns += [folder + "/triage-record-*/**" for folder in _ranks.folders(run)]
    for pattern in patterns:
        run.tree(pattern, cap=64 << 20)
