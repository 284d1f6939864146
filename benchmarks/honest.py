"""The client beside an attack: HOST PORT TOPIC produces one record and fetches it, every few ms, until its standard input is closed.

It says `ready` after its first record came back, and in the end one line of JSON: how many records, latencies in ms, and how many
came back wrong.
"""

from __future__ import annotations

import json
import select
import sys
import time

import frames
from pump import LoadError, call, connect

PAUSE_S = 0.004


def main() -> None:
    """Work until standard input is closed."""
    host, port, topic = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
    link = connect((host, port))
    call(link, frames.create_topic(topic, 1))
    latencies: list[float] = []
    wrong = records = 0
    error = ""

    def exchange() -> None:
        nonlocal wrong, records
        batch = frames.record_batch(1, 100)
        started = time.perf_counter()
        produced = call(link, frames.produce(topic, 0, batch))
        between = time.perf_counter()
        found = call(link, frames.fetch(topic, 0, records, 1 << 20, max_wait_ms=0))
        latencies.extend(((between - started) * 1000, (time.perf_counter() - between) * 1000))
        code, first, last = frames.fetched(found, 0, topic)
        body = bytes(found[first:last])
        wrong += frames.produce_error(produced, 0, topic) != 0 or code != 0 or body[frames.BATCH_HEADER :] != batch[frames.BATCH_HEADER :]
        records += 1

    exchange()
    latencies.clear()
    print("ready", flush=True)
    try:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            exchange()
    except (LoadError, OSError) as failure:
        error = str(failure) or type(failure).__name__
    latencies.sort()
    p99, most = (latencies[int(len(latencies) * 0.99)], latencies[-1]) if latencies else (float("nan"), float("nan"))
    print(json.dumps({"records": records, "p99_ms": p99, "max_ms": most, "wrong": wrong, "error": error}))


if __name__ == "__main__":
    main()
