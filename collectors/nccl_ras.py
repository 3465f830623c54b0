"""NCCL's RAS service, asked twice: counters that stand still between the answers show who waits."""

import socket

import _ranks

NAME = "nccl_ras"
TITLE = "NCCL RAS"
NEEDS = ()
SECONDS = 25
PAUSE = 4  # seconds between the two questions
PORT = 28028


def collect(run):
    """Every address that a rank names, and the default one."""
    for number, address in enumerate(_addresses(run)):
        if not _listens(address):
            continue
        for turn in (1, 2):
            for form in ("json", "text"):
                answer = _asked(address, form, min(8, run.left() - 1))
                if answer:
                    run.text("ras%d-%d.%s" % (number, turn, "json" if answer[:1] == b"{" else "txt"), answer)
                    break
            if turn == 1:
                run.sleep(PAUSE)


def _addresses(run):
    found = [("localhost", PORT)]
    for value in _ranks.values(run, "NCCL_RAS_ADDR"):
        host, _, port = value.rpartition(":")
        if port.isdigit():
            found.append((host.strip("[]") or "localhost", int(port)))
    return sorted(set(found))


def _listens(address):
    try:
        socket.create_connection(address, 1).close()
    except OSError:
        return False
    return True


def _asked(address, form, seconds):
    """The answer of the service's line protocol; b"" when it does not speak it."""
    lines = b"CLIENT PROTOCOL 2\nTIMEOUT %d\n" % max(1, int(seconds) - 1)
    lines += b"SET FORMAT json\n" if form == "json" else b""
    parts = []
    try:
        connection = socket.create_connection(address, 2)
        with connection:
            connection.settimeout(max(1, seconds))
            connection.sendall(lines + b"VERBOSE STATUS\n")
            while sum(len(part) for part in parts) < 16 << 20:
                data = connection.recv(1 << 16)
                if not data:
                    break
                parts.append(data)
    except OSError:
        pass
    answer = b"".join(parts)
    head, rest = [], answer
    while rest.startswith((b"SERVER PROTOCOL", b"OK\n")):
        line, _, rest = rest.partition(b"\n")
        head.append(line)
    return b"" if not head or rest.startswith(b"ERROR") else rest
