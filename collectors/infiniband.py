"""InfiniBand and RoCE: state and counters of every port, and what ethtool counts behind it."""

import glob
import os

NAME = "infiniband"
TITLE = "InfiniBand and RoCE ports"
NEEDS = ("/sys/class/infiniband/*",)
SECONDS = 20
PORT = ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "cap_mask")


def collect(run):
    """sysfs as `path:value` lines, then the tools where they are installed."""
    lines = []
    for device in sorted(glob.glob("/sys/class/infiniband/*")):
        for name in ("fw_ver", "board_id", "hca_type", "node_guid", "device/numa_node"):
            lines += _value(device + "/" + name)
        for port in sorted(glob.glob(device + "/ports/*")):
            for name in PORT:
                lines += _value(port + "/" + name)
            for path in sorted(glob.glob(port + "/counters/*") + glob.glob(port + "/hw_counters/*")):
                lines += _value(path)
            for path in sorted(glob.glob(port + "/gid_attrs/types/*"))[:16]:
                lines += _value(path)
    run.text("sysfs.txt", "\n".join(lines) + "\n")
    run.command(["ibstat"])
    run.command(["ibstatus"])
    run.command(["ibdev2netdev", "-v"])
    run.command(["rdma", "link", "show"])
    for path in sorted(glob.glob("/sys/class/infiniband/*/device/net/*"))[:32]:
        name = os.path.basename(path)
        run.command(["ethtool", name])
        run.command(["ethtool", "-S", name])
        run.command(["ethtool", "-m", name], seconds=3)


def _value(path):
    try:
        with open(path) as source:
            return ["%s:%s" % (path, source.read(4096).strip())]
    except (IOError, OSError, UnicodeDecodeError):
        return []
