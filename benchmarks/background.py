"""Another client, while latency is measured: HOST PORT REQUESTS_A_SECOND sends one frame evenly, until killed.

The frame comes on standard input; it prints `ready` at the first answers. A broker that does not keep up gets no more than OUTSTANDING
answers at a time. An answer is counted by its size alone: all have the same.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time

from pump import call, connect

LINKS = 4
OUTSTANDING = 200
TICK_S = 0.0002


def main() -> None:
    """Send until killed."""
    host, port, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    frame = sys.stdin.buffer.read()
    links = [connect((host, port)) for _ in range(LINKS)]
    answers = [call(link, frame) for link in links]
    answer_size = 4 + len(answers[0])
    for link in links:
        link.setblocking(False)
    print("ready", flush=True)
    sent = read_bytes = 0
    started = time.perf_counter()
    for link in itertools.cycle(links):
        due = int((time.perf_counter() - started) * rate) - sent
        due = min(due, OUTSTANDING - (sent - read_bytes // answer_size))
        if due > 0:
            link.setblocking(True)
            link.sendall(frame * due)
            link.setblocking(False)
            sent += due
        for each in links:
            with contextlib.suppress(BlockingIOError):
                read_bytes += len(each.recv(1 << 16))
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
