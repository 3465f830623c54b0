"""DCGM: health and results of diagnostics that were run before, and the exporter's metrics; starts none."""

import socket

NAME = "dcgm"
TITLE = "DCGM"
NEEDS = ("dcgmi|nv-hostengine|/var/log/nvidia-dcgm",)
SECONDS = 20


def collect(run):
    """Health watches as they stand, counters, old diagnostic logs."""
    run.command(["dcgmi", "discovery", "-l"])
    run.command(["dcgmi", "health", "-g", "0", "-c"], "health.txt")
    run.command(["dcgmi", "nvlink", "-s"], "nvlink.txt")
    run.command(["dcgmi", "nvlink", "-e", "-g", "0"], "nvlink-errors.txt")
    for pattern in (
        "/var/log/nvidia-dcgm/*",
        "/var/log/nv-hostengine.log*",
        "/tmp/dcgm*diag*.json",
        "/var/log/dcgm*diag*",
    ):
        run.tree(pattern, cap=2 << 20)
    run.text("exporter.txt", _metrics(9400))


def _metrics(port):
    """The exporter's page, by hand: an HTTP library would be slow to import."""
    parts = []
    try:
        connection = socket.create_connection(("localhost", port), 1)
        with connection:
            connection.settimeout(4)
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            while sum(len(part) for part in parts) < 8 << 20:
                data = connection.recv(1 << 16)
                if not data:
                    break
                parts.append(data)
    except OSError:
        return b""
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return body if b" 200 " in head[:20] else b""
