"""Many nodes in one collection, and collections killed at random moments.

    python benchmarks/collect.py nodes 512         a launcher with so many simulated nodes and all that applies
    python benchmarks/collect.py cheap 512         the same with four quick collectors: what the launcher itself costs
    python benchmarks/collect.py kills 100         collections of this machine, each killed at a random moment
    python benchmarks/collect.py redaction LOG     megabytes a second: on a node, and in `triage redact`

A simulated node is a shell script in the place of ssh: it runs the real collectors on this machine. Some hang, some
refuse, some are dark. Not a test: minutes of processor time.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from triage.bundle.opening import open_evidence
from triage.bundle.redaction import Redactor, rules_file
from triage.transport import packing

ROOT = Path(__file__).resolve().parents[1]
CHEAP = ("proc_stat", "limits", "environment", "cgroup")
SSH = """\
#!/bin/sh
# ssh ... -- HOST LINE: every 16th host is dark, every 32nd refuses.
while [ "$1" != -- ]; do shift; done
case $2 in
  *00|*16|*32|*48|*64|*80|*96) echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255 ;;
  *08|*40|*72) echo "Permission denied (publickey)." >&2; exit 255 ;;
esac
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec sh -c "$3"
"""


def nodes(count: int, only: Sequence[str] = ()) -> None:
    """One collection over that many nodes."""
    with tempfile.TemporaryDirectory() as folder:
        ssh = Path(folder) / "ssh"
        ssh.write_text(SSH)
        ssh.chmod(0o755)
        (Path(folder) / "sitecustomize.py").write_text(
            "import importlib.util as u\nfind = u.find_spec\n"
            "u.find_spec = lambda name, *a: None if name == 'ClusterShell' else find(name, *a)\n"
        )
        command = [sys.executable, "-m", "triage", "collect", "--nodelist", f"node[0001-{count:04d}]"]
        command += ["--only", ",".join(only)] if only else []
        command += ["--ssh", str(ssh), "--timeout", "300", "-q", "-o", f"{folder}/b.tar.zst"]
        started = time.monotonic()
        code = subprocess.run(command, check=False, env=dict(os.environ, PYTHONPATH=folder)).returncode
        taken, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        with open_evidence([f"{folder}/b.tar.zst"]) as evidence:
            manifest = evidence.manifest or {}
        rows = Counter((row["node"], row["collector"]) for row in manifest["ledger"])
        lost = count * (len(only or packing.collectors()) + 1) - len(rows)
        answered = sum(1 for one in manifest["nodes"] if one["complete"])
        size = Path(f"{folder}/b.tar.zst").stat().st_size / 1e6
    print(
        f"{count} nodes: {taken:.1f} s ({used.ru_utime + used.ru_stime:.0f} s of processors), exit {code},"
        f" {answered} in full, {lost} rows lost, bundle {size:.1f} MB, largest process {used.ru_maxrss / 1024:.0f} MB"
    )


def kills(count: int) -> None:
    """Collections killed at random moments: the bundle or the folder must be readable each time."""
    source, outcomes = random.Random(1), Counter[str]()
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "triage", "collect", "--only", ",".join(CHEAP), "-o", f"{folder}/b.tar.gz"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            time.sleep(source.uniform(0, 3.5))
            process.kill()
            process.wait()
            outcomes[readable(Path(folder))] += 1
    print(dict(outcomes))


def readable(folder: Path) -> str:
    """What is there after a kill. Raises when it cannot be read."""
    bundle, partial = folder / "b.tar.gz", folder / "b.tar.gz.partial"
    if not bundle.exists() and not (partial / "manifest.json").exists():
        return "nothing yet"
    with open_evidence([str(bundle if bundle.exists() else partial)]) as evidence:
        assert evidence.manifest is not None
        for file in evidence.files:
            evidence.read(file)
    return "bundle" if bundle.exists() else "folder"


def redaction(log: str) -> None:
    """The same log both ways, on one core."""
    data = Path(log).read_bytes()
    spec = importlib.util.spec_from_file_location("_redaction", ROOT / "collectors" / "_redaction.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outputs = []
    for name, redactor in (("node", module.Redactor(rules_file(), b"k" * 32)), ("here", Redactor(b"k" * 32))):
        redactor.copy(io.BytesIO(b"8.8.4.4\n"), io.BytesIO())  # rules are compiled when first needed
        with Path(log).open("rb") as source, Path(os.devnull).open("wb") as sink:
            started = time.process_time()
            redactor.copy(source, sink)
            taken = time.process_time() - started
        print(f"{name}: {len(data) / 1e6 / taken:.0f} MB/s {json.dumps(redactor.counts)}")
        outputs.append(io.BytesIO())
        redactor.copy(io.BytesIO(data), outputs[-1])
    print("same bytes" if outputs[0].getvalue() == outputs[1].getvalue() else "DIFFERENT BYTES")


if __name__ == "__main__":
    what, value = sys.argv[1:]
    if what == "redaction":
        redaction(value)
    else:
        {"nodes": nodes, "cheap": partial(nodes, only=CHEAP), "kills": kills}[what](int(value))
