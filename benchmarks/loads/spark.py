"""Spark and its Kafka connector: batch reads of small ranges and of everything, and micro-batches of a stream.

One Spark session (spark_program.py) reads from every broker of a run, one after the other, and stands still between loads. Each load asks
for the same once before its clock starts, the very first one of a run often enough that Spark's JVM has compiled what is hot: whoever comes
first would pay for it. Spark itself is most of every figure; what it asks brokers for, and how often, is the connector's.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import frames
from peers import Need, Peer, Unavailable
from pump import LoadError, call, connect

from loads.clients import at
from loads.common import LINKS, check_produced, new_topic, pumping
from loads.declaration import Figures, Load

PROGRAM = Path(__file__).parents[1] / "spark_program.py"
RANGE_RECORDS = 100  #: of one read, over all partitions
READS = 20
BATCH_RECORDS = 160  #: of 100 bytes: about what clients put into a batch of 16 kB
EVERYTHING = 1_000_000
STREAMED = 400_000
A_TRIGGER = 50_000
TRIGGERS = 20


def small_ranges(peer: Peer, scale: float) -> Figures:
    """Spark reads 20 times 100 records, a quarter from each of four partitions; the next read goes on where the last one ended."""
    reads = max(3, int(READS * scale))
    a_partition = RANGE_RECORDS // LINKS
    topic = _filled(peer, a_partition, reads * RANGE_RECORDS)
    every = range(LINKS)
    spans = [
        [{str(each): number * a_partition for each in every}, {str(each): (number + 1) * a_partition for each in every}]
        for number in range(reads)
    ]
    request_fields = {"do": "ranges", "at": at(peer), "topic": topic, "records": RANGE_RECORDS}
    with spark() as program:
        for _ in range(program.warming("ranges", 4 * scale)):
            program.ask(**request_fields, ranges=spans[: max(1, reads // 4)])
        cpu = peer.cpu_seconds()
        seconds = program.ask(**request_fields, ranges=spans)["seconds"]
        cpu = peer.cpu_seconds() - cpu
    return {"wall s": sum(seconds), "a read p50 ms": statistics.median(seconds) * 1000, "CPU ms/read": cpu / reads * 1000}


def everything(peer: Peer, scale: float) -> Figures:
    """Spark reads 1,000,000 records of 100 bytes from four partitions into nowhere."""
    records = _whole_batches(EVERYTHING * scale)
    request_fields = {"do": "whole", "at": at(peer), "topic": _filled(peer, BATCH_RECORDS, records)}
    with spark() as program:
        for _ in range(program.warming("whole", 3 * scale)):
            program.ask(**request_fields)
        cpu = peer.cpu_seconds()
        seconds = program.ask(**request_fields)["seconds"]
        cpu = peer.cpu_seconds() - cpu
    return {"wall s": seconds, "records/s": records / seconds, "CPU s": cpu}


def streaming(peer: Peer, scale: float) -> Figures:
    """Micro-batches: 400,000 records in batches of 50,000; then a query that always runs, from a new record to the end of its batch."""
    records = _whole_batches(STREAMED * scale)
    topic = _filled(peer, BATCH_RECORDS, records)
    with spark() as program, tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        request_fields = {"at": at(peer), "topic": topic, "folder": folder, "records": max(BATCH_RECORDS, int(A_TRIGGER * min(scale, 1.0)))}
        for _ in range(program.warming("available", 2 * scale)):
            program.ask(do="available", **request_fields)
        found = program.ask(do="available", **request_fields)
        if found["rows"] < records:
            raise LoadError(f"{found['rows']} of {records} rows")
        request_fields["topic"] = _filled(peer, 1, LINKS)
        quick = _quick_triggers(program, peer, request_fields, max(3, int(TRIGGERS * scale)))
    return {
        "records/s": found["rows"] / found["seconds"],
        "trigger of 50,000 p50 ms": statistics.median(found["triggers_ms"]),
        "new record to end of batch p50 ms": statistics.median(quick) * 1000,
        "new record to end of batch max ms": max(quick) * 1000,
    }


def _quick_triggers(program: Program, peer: Peer, request_fields: dict[str, Any], triggers: int) -> list[float]:
    """Seconds of each, from a record's acknowledgement until Spark has taken it."""
    request = frames.produce(request_fields["topic"].encode(), 0, frames.record_batch(1, 100))
    seconds = []
    warm = program.warming("triggers", triggers, least=2)
    program.ask(do="begin", **request_fields)
    with contextlib.closing(connect(peer.address)) as connection:
        for number in range(-warm, triggers):
            call(connection, request)
            began = time.perf_counter()
            program.ask(do="catch_up")
            if number >= 0:
                seconds.append(time.perf_counter() - began)
    program.ask(do="end")
    return seconds


def _filled(peer: Peer, records_a_batch: int, records: int) -> str:
    """A topic of four partitions with so many records of 100 bytes in all, from offset 0."""
    topic = new_topic(peer, LINKS)
    batch = frames.record_batch(records_a_batch, 100)
    requests = [frames.produce(topic, partition, batch) for partition in range(LINKS)]

    with pumping(peer, depth=1) as pump:  # by number, not by connection: the same for each partition
        pump.run(records // records_a_batch, lambda _, number: requests[number % LINKS], check_produced(topic))
    return topic.decode()


def _whole_batches(records: float) -> int:
    """The same number in each partition."""
    step = BATCH_RECORDS * LINKS
    return max(step, int(records) // step * step)


class Program:
    """The process that holds the Spark session."""

    def __init__(self) -> None:
        from minibroker.spark.session import missing  # noqa: PLC0415  other loads do without Spark

        if problem := missing():
            raise Unavailable(problem)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        pipes = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            process_group=0,
        )
        if pipes.stdin is None or pipes.stdout is None:
            raise Unavailable("no pipes to Spark")
        self._process, self._commands, self._answers = pipes, pipes.stdin, pipes.stdout
        self._warm: set[str] = set()
        atexit.register(self.end)
        self._answer()

    def warming(self, what: str, times: float, least: int = 1) -> int:
        """How often to do it before the clock starts: `times` when it is the first time in this run, then `least`."""
        first = what not in self._warm
        self._warm.add(what)
        return max(least, int(times)) if first else least

    def ask(self, **command: Any) -> dict[str, Any]:
        """What it answers; LoadError when it failed."""
        self._commands.write(json.dumps(command) + "\n")
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            self._errors.seek(0)
            raise Unavailable(f"Spark ended: {self._errors.read().decode(errors='replace').strip().splitlines()[-1:]}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise LoadError(f"Spark: {answer['failed']}")
        return answer

    def rest(self) -> None:
        """Stand still: an idle Spark takes a tenth of a core."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """Go on."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        """Close its input, and wait."""
        self.wake()
        self._commands.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()


@cache
def _program() -> Program:
    """The one of this run; started when the first load asks for it."""
    return Program()


@contextlib.contextmanager
def spark() -> Iterator[Program]:
    """Spark, awake for as long as a load needs it."""
    program = _program()
    program.wake()
    try:
        yield program
    finally:
        program.rest()


_THEME = "Spark"
_NEEDS = frozenset({Need.CLIENTS})
LOADS = (
    Load("Spark, small ranges", small_ranges, _THEME, seconds=30, quick=0.25, needs=_NEEDS),
    Load("Spark, 1,000,000 records", everything, _THEME, seconds=20, needs=_NEEDS),
    Load("Spark, streaming", streaming, _THEME, seconds=30, needs=_NEEDS),
)
