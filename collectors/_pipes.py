"""What a program prints, as far as it is kept: its last bytes, until its end, a deadline or a flood."""

import os
import select
import time

FLOOD = 64  # times the cap: a program that prints more is ended


def tail(pipe, ends, cap):
    """The last `cap` bytes of what comes until the end, the time, or a flood; how many came; whether it was stopped."""
    parts, held, total = [], 0, 0
    while True:
        left = ends - time.time()
        if left <= 0 or total > FLOOD * cap:
            return joined(parts, cap), total, True
        if not select.select([pipe], [], [], left)[0]:
            continue
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            return joined(parts, cap), total, False
        parts.append(data)
        held, total = held + len(data), total + len(data)
        while held - len(parts[0]) >= cap:
            held -= len(parts.pop(0))


def joined(parts, cap):
    data = b"".join(parts)
    if len(data) <= cap:
        return data
    data = data[-cap:]
    return data[data.find(b"\n", 0, 1 << 16) + 1 :]
