"""The client beside an attack: HOST PORT TOPIC produces one record and fetches it, every few ms, until its standard input is closed.

With --ca FILE it connects by SASL_SSL. With --logins it connects and logs in again and again instead.

It prints `ready` after its first record came back, and at the end one line of JSON: the number of records, latencies in ms, and how many
came back wrong.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import ssl
import sys
import time

import frames
from pump import LoadError, call, connect

PAUSE_S = 0.004
LOGIN_PAUSE_S = 0.05
USER, PASSWORD = b"alice", b"secret"


def connected(host: str, port: int, context: ssl.SSLContext | None) -> socket.socket:
    """Connect; with a context, use TLS and log in by PLAIN."""
    link = connect((host, port))
    if context is None:
        return link
    secured = context.wrap_socket(link, server_hostname="localhost")
    token = b"\0" + USER + b"\0" + PASSWORD
    for request in (frames.frame(17, 1, frames.string(b"PLAIN")), frames.frame(36, 0, len(token).to_bytes(4, "big") + token)):
        if call(secured, request)[4:6] != b"\0\0":
            raise LoadError("the login was refused")
    return secured


def main() -> None:
    """Produce and fetch until standard input is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("topic", type=str.encode)
    parser.add_argument("--ca")
    parser.add_argument("--logins", action="store_true")
    arguments = parser.parse_args()
    context = None if arguments.ca is None else ssl.create_default_context(cafile=arguments.ca)
    link = connected(arguments.host, arguments.port, context)
    topic = arguments.topic
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

    def log_in() -> None:
        nonlocal records
        started = time.perf_counter()
        connected(arguments.host, arguments.port, context).close()
        latencies.append((time.perf_counter() - started) * 1000)
        records += 1

    work, pause_s = (log_in, LOGIN_PAUSE_S) if arguments.logins else (exchange, PAUSE_S)
    work()
    latencies.clear()
    print("ready", flush=True)
    try:
        while not select.select([sys.stdin], [], [], pause_s)[0]:
            work()
    except (LoadError, OSError) as failure:
        error = str(failure) or type(failure).__name__
    latencies.sort()
    p99, most = (latencies[int(len(latencies) * 0.99)], latencies[-1]) if latencies else (float("nan"), float("nan"))
    print(json.dumps({"records": records, "p99_ms": p99, "max_ms": most, "wrong": wrong, "error": error}))


if __name__ == "__main__":
    main()
