"""What is read as a whole and so sent as a whole: binary files, JSON, XML, tables, listings. The rest are logs."""

import json
import re

HEAD = 65536  # bytes of a file that tell
_BINARY = (b"\x80", b"PK\3\4", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")
_ARRAY = re.compile(rb'\[\s*[\[{"]|<[?!]?[A-Za-z]')
_LISTING = re.compile(
    rb"=*NVSMI LOG|(?:[^\n]*\n){0,4}[|+][ -]*NVIDIA-SMI|GPU \d+: [^\n]*\(UUID|# gpu |\s*GPU0\t|#\s*Entity"  # nvidia-smi
    rb"|\S*JobID[| ]|\s+JOBID |JobId=\d|Job ID: |NODELIST |REASON |NodeName="  # sacct, squeue, scontrol, sinfo
    rb"|NCCL version [\d.]+ compiled with|# nThread |Successfully ran diagnostic"
    rb"|apiVersion: |Name: |NAME +[A-Z]|LAST SEEN |# (?:HELP|TYPE) |cpu +\d|ctxt \d|==PROF=="
    rb"|[0-9a-f]{2,4}:[0-9a-f:.]+ [A-Z][\w ]+[\w\]]: |-\[0000:|Process \d+: |Thread (?:0x|\d)|\[<0>\] "
)
_COLUMNS = re.compile(rb'"?[A-Za-z_][^\n:]*,[^\n:]*,[^\n:]*\n')


def stays_whole(head):
    """Whether a file that begins so is to be sent as it is."""
    if b"\0" in head[:8192] or head.startswith(_BINARY):
        return True
    start = head.lstrip()
    if start.startswith(b"{"):
        first, _, rest = start.partition(b"\n")
        return not rest.strip() or _is_document(first)
    if _ARRAY.match(start) or _LISTING.match(start) or _LISTING.match(head):
        return True
    lines = start.split(b"\n", 2)
    return bool(_COLUMNS.match(start)) and len(lines) > 2 and lines[0].count(b",") == lines[1].count(b",")


def _is_document(first):
    """JSON over many lines, or lines that are records of steps; lines of any other objects are a log."""
    try:
        found = json.loads(first.decode("utf-8", "replace"))
    except ValueError:
        return not first.startswith(b"{'")
    return isinstance(found, dict) and bool({"step", "schema"}.intersection(found))
