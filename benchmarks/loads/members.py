"""What the newer kinds of groups make their users wait for: a second member (KIP-848), share consumers (KIP-932), Kafka Streams.

The clients are real ones with their defaults, and how often they speak to the coordinator is what the broker tells them: that is what
differs most here.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import frames
from peers import KAFKA_VERSION, NO_LOGGING, Need, Peer, fetch_jars
from pump import LoadError, call, connect

from loads.clients import PATIENT, TOOL_TIMEOUT_S, VALUE_SIZE, at, new_group, produced_by_tool, run_tool, table_of
from loads.common import LINKS, READY_TIMEOUT_S, new_topic
from loads.declaration import Figures, Load

SHARED = 200_000
FIRST_SHARED = 10_000
PROGRAM = Path(__file__).parents[1] / "java" / "FirstCount.java"
_names = count(time.time_ns() // 1_000_000)


def second_member(peer: Peer, scale: float) -> Figures:
    """confluent-kafka, group.protocol=consumer: from subscribe() of a second member until each of the two has one of two partitions."""
    topic = new_topic(peer, 2).decode()
    return {"until both have partitions s": statistics.median([_second_member_s(peer, topic) for _ in range(max(1, int(2 * scale)))])}


def _second_member_s(peer: Peer, topic: str) -> float:
    from confluent_kafka import Consumer  # noqa: PLC0415  other loads do without it

    settings = {"bootstrap.servers": at(peer), "group.id": new_group(), "group.protocol": "consumer"}
    with contextlib.ExitStack() as held:
        first, second = (held.enter_context(contextlib.closing(Consumer(settings))) for _ in range(2))
        first.subscribe([topic])
        _poll_until(lambda: len(first.assignment()) == 2, first)
        started = time.perf_counter()
        second.subscribe([topic])
        _poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
        return time.perf_counter() - started


def _poll_until(done: Any, *consumers: Any) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not done():
        if time.monotonic() > deadline:
            raise LoadError("members do not get their partitions")
        for each in consumers:
            each.poll(0.005)


def share(peer: Peer, scale: float) -> Figures:
    """Kafka's ShareConsumerPerformance: one member of a share group reads and acknowledges 1 kB records of four partitions."""
    topic = new_topic(peer, LINKS).decode()
    total = max(1000, int(SHARED * scale))
    produced_by_tool(peer, topic, total)
    _share(peer, topic, min(total, FIRST_SHARED))  # the broker's first share group makes the topic of its states
    cpu = peer.cpu_seconds()
    found = _share(peer, topic, total)
    cpu = peer.cpu_seconds() - cpu
    return {"records/s": found["nMsg.sec"], "CPU s/GB": cpu / (found["data.consumed.in.nMsg"] * VALUE_SIZE / 1e9)}


def _share(peer: Peer, topic: str, records: int) -> dict[str, float]:
    group = new_group()
    with contextlib.closing(connect(peer.address)) as connection:
        request = frames.alter_config(frames.GROUP, group.encode(), b"share.auto.offset.reset", b"earliest")
        if error := frames.alter_config_error(call(connection, request)):
            raise LoadError(f"IncrementalAlterConfigs error {error}")
    where = ("--bootstrap-server", at(peer), "--topic", topic, "--group", group, *PATIENT)
    return table_of(run_tool("org.apache.kafka.tools.ShareConsumerPerformance", *where, "--num-records", str(records)))


def first_count(peer: Peer, scale: float) -> Figures:
    """A word count of Kafka Streams, exactly_once_v2, from start() to the first count that is committed; by both protocols of groups."""
    del scale  # one count is one count
    return {
        f"first count, {protocol} group ms": _first_count_ms(peer, f"group.protocol={protocol}", "processing.guarantee=exactly_once_v2")
        for protocol in ("classic", "streams")
    }


def _first_count_ms(peer: Peer, *settings: str) -> float:
    """Return the seconds of an application that is new to this broker, with topics to create and an empty store."""
    lines, counts = (new_topic(peer, partitions).decode() for partitions in (LINKS, 1))
    jars = fetch_jars(f"kafka-streams-{KAFKA_VERSION}", f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", NO_LOGGING)
    with tempfile.TemporaryDirectory(prefix="bench-streams-") as state:
        command = ["java", "-cp", f"{jars}/*", str(PROGRAM), at(peer), lines, counts, f"bench-{next(_names)}", state]
        command += ["auto.offset.reset=earliest", *settings]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    found = [line.removeprefix("first count ms ") for line in done.stdout.splitlines() if line.startswith("first count ms ")]
    if not found:
        raise LoadError(f"Kafka Streams: {(done.stderr + done.stdout).strip().splitlines()[-1:]}")
    return float(found[0])


_THEME = "Groups of the newer kinds"
_NEEDS = frozenset({Need.CLIENTS})
LOADS = (
    Load("KIP-848, second member", second_member, _THEME, seconds=15, needs=_NEEDS),
    Load("share consumer", share, _THEME, seconds=25, needs=_NEEDS),
    Load("Kafka Streams, first count", first_count, _THEME, seconds=40, needs=_NEEDS),
)
