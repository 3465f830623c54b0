"""What the collectors find on a machine with GPUs: which fields of NVML are there, which are refused and why.

    python3 benchmarks/collect_gpu.py FOLDER [--pynvml FOLDER_OF_PYNVML.PY]

Python 3.6 or newer and nothing else: pynvml is taken from the system, or from the folder (`pip download nvidia-ml-py`,
unpacked, or the file out of another environment); without it nvidia-smi answers. Writes FOLDER/nvml.json (or
query-gpu.csv), FOLDER/smi-q.txt, and FOLDER/summary.json, with serial numbers, UUIDs and the host's name made up, and
prints the summary.
"""

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "collectors"
NAMES = "nvml,nvidia_smi,topology,pcie,versions,services,dcgm,infiniband"
KEPT = {"nvml/nvml.json": "nvml.json", "nvml/query-gpu.csv": "query-gpu.csv", "nvidia_smi/q.txt": "smi-q.txt"}
HIDDEN = (
    (rb"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", b"GPU-00000000-0000-0000-0000-000000000000"),
    (rb"(?i)((?:serial|serial number|board id|module id)\"?\s*: \"?)[0-9]{6,}", rb"\g<1>1650000000000"),
    (rb"(?i)(pdi\"?\s*: \"?)0x[0-9a-f]{6,}", rb"\g<1>0x0"),
)


def app(folder):
    """The node's program, as it is sent to nodes."""
    path = folder / "c.pyz"
    with zipfile.ZipFile(str(path), "w") as archive:
        for name in sorted(ROOT.glob("*.py")) + sorted(ROOT.glob("*.json")):
            archive.write(str(name), name.name)
        archive.writestr("request.json", json.dumps({"only": NAMES.split(",")}))
    return path


def placed(folder, pynvml):
    """An environment in which the collector finds that pynvml."""
    known = dict(os.environ)
    if pynvml:
        place = folder / "environment" / "lib" / "python3" / "site-packages"
        place.mkdir(parents=True)
        shutil.copy(str(Path(pynvml) / "pynvml.py"), str(place))
        known["VIRTUAL_ENV"] = str(folder / "environment")
    return known


def collected(pynvml):
    """Files by name, and ledger rows by collector."""
    files, rows = {}, {}
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-I", "-S", str(app(Path(name))), "node001", "--seconds=90"]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=placed(Path(name), pynvml), check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout), mode="r|gz") as archive:
        for info in archive:
            data = archive.extractfile(info).read()
            if info.name.startswith("_ledger/") and not info.name.endswith(("_begin.json", "_end.json")):
                row = json.loads(data.decode())["row"]
                rows[row["collector"]] = row
            else:
                files[info.name] = data
    return files, rows


def scrubbed(data):
    """Without what names this machine."""
    for pattern, instead in HIDDEN:
        data = re.sub(pattern, instead, data)
    return re.sub(rb"\b" + re.escape(os.uname()[1].encode()) + rb"\b", b"node001", data)


def told(gpu, prefix=""):
    """Fields with a value, and refused ones with the reason."""
    there, refused = [], {}
    for name, value in sorted(gpu.items()):
        if isinstance(value, dict) and set(value) == {"unsupported"}:
            refused[prefix + name] = value["unsupported"]
        elif name != "links":
            there.append(prefix + name)
    return there, refused


def summary(files, rows):
    """What there is to say."""
    found = {"ledger": {name: {k: v for k, v in row.items() if k != "node"} for name, row in sorted(rows.items())}}
    found["files"] = {name: len(data) for name, data in sorted(files.items()) if not name.startswith("_")}
    if "nvml/nvml.json" in files:
        nvml = json.loads(files["nvml/nvml.json"].decode())
        gpu = nvml["gpus"][0]
        there, refused = told(gpu)
        for link in gpu.get("links", [])[:1]:
            more = told(link, "link.")
            there, refused = there + more[0], dict(refused, **more[1])
        found.update(driver=nvml["driver"], nvml=nvml["nvml"], gpus=len(nvml["gpus"]), links=len(gpu.get("links", [])))
        found.update(there=there, refused=refused)
    return found


def main():
    """Collect, write, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--pynvml")
    wanted = parser.parse_args()
    files, rows = collected(wanted.pynvml)
    Path(wanted.folder).mkdir(parents=True, exist_ok=True)
    for name, target in KEPT.items():
        if name in files:
            (Path(wanted.folder) / target).write_bytes(scrubbed(files[name]))
    text = scrubbed(json.dumps(summary(files, rows), indent=1).encode())
    (Path(wanted.folder) / "summary.json").write_bytes(text + b"\n")
    print(text.decode())


if __name__ == "__main__":
    main()
