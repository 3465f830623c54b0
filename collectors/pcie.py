"""PCIe: speed and width of every link that has a GPU, a network port or NVMe behind it, and error counters."""

import glob
import os

NAME = "pcie"
TITLE = "PCIe links"
NEEDS = ("/sys/bus/pci/devices/*",)
SECONDS = 20
CLASSES = ("0x0300", "0x0302", "0x0200", "0x0207", "0x0108", "0x0604", "0x0680", "0x1200")
NAMES = (
    "class", "vendor", "device", "numa_node", "current_link_speed", "current_link_width", "max_link_speed",
    "max_link_width", "aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal", "power_state",
)  # fmt: skip


def collect(run):
    """sysfs, then lspci (complete only as root)."""
    lines = []
    for device in sorted(glob.glob("/sys/bus/pci/devices/*")):
        if not _read(device + "/class").startswith(CLASSES):
            continue
        lines.append("%s driver=%s" % (os.path.basename(device), _driver(device)))
        for name in NAMES:
            value = _read(device + "/" + name)
            if value:
                lines.append("    %s: %s" % (name, value.replace("\n", "; ")))
    run.text("links.txt", "\n".join(lines) + "\n" if lines else "")
    run.command(["lspci", "-tv"])
    run.command(["lspci", "-vvv"], seconds=8)


def _read(path):
    try:
        with open(path) as source:
            return source.read(4096).strip()
    except (IOError, OSError, UnicodeDecodeError):
        return ""


def _driver(device):
    try:
        return os.path.basename(os.readlink(device + "/driver"))
    except OSError:
        return "none"
