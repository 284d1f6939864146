"""Loads of transactions: producers that commit again and again, readers of what is committed, starts with many transactional ids.

A producer waits for each answer before its next request, as clients do at the ends of a transaction. CONCURRENT_TRANSACTIONS (the broker
is still writing the markers of the last transaction) gets the same request again at once, where clients pause for 20 to 100 ms; the
number of repetitions is a figure.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from itertools import count

import frames
import transaction_frames
from peers import Need, Peer
from pump import Link, LoadError, call, connect

from loads.common import FETCH_BYTES, LINKS, READY_TIMEOUT_S, new_topic, percentile_us, pumping
from loads.declaration import Figures, Load

CONCURRENT_TRANSACTIONS = 51
FIRST_IDS = 400  #: some of each of the 50 partitions of a new `__transaction_state`: Kafka loads each before it answers
#: Error codes of a coordinator that starts: not available, loading, not the coordinator (yet).
NOT_YET = (14, 15, 16)
IDS = 10_000
DESCRIBED_AT_ONCE = 500

_names = count(time.time_ns() // 1_000_000)


class Producer:
    """One transactional id on one connection: the next request, and the check of its answer."""

    def __init__(self, peer: Peer, topic: bytes, batches: list[tuple[int, int, bytes]], *, version: int, abort_each: int = 0) -> None:
        """`batches` of a transaction: (partition, count of records, records encoded). Each `abort_each`th one is aborted."""
        self.id = b"bench-%d" % next(_names)
        self.ended = self.asked_again = 0
        self.commit_s: list[float] = []
        self._topic, self._batches, self._abort_each = topic, batches, abort_each
        self._partitions = sorted({partition for partition, _, _ in batches})
        self._sequences = dict.fromkeys(self._partitions, 0)
        self._step = self._first_step = 0 if version == 1 else 1
        self._version = version
        self._began = 0.0
        self.ids = begin(peer, self.id)

    def request(self) -> bytes:
        """Return the next request to send."""
        if self._step == 0:
            return transaction_frames.add_partitions(self.id, self.ids, self._topic, self._partitions)
        if self._step <= len(self._batches):
            partition, records, body = self._batches[self._step - 1]
            batch = frames.transactional_batch(records, body, self.ids, self._sequences[partition])
            produce = transaction_frames.produce if self._version == 1 else transaction_frames.produce_v2
            return produce(self.id, self._topic, partition, batch)
        if not self._began:
            self._began = time.perf_counter()
        commit = not self._abort_each or (self.ended + 1) % self._abort_each != 0
        end = transaction_frames.end if self._version == 1 else transaction_frames.end_v2
        return end(self.id, self.ids, commit=commit)

    def answered(self, answer: bytearray, start: int) -> None:
        """Check the answer to the last request."""
        error = self._error(answer, start)
        if error == CONCURRENT_TRANSACTIONS:
            self.asked_again += 1
        elif error:
            raise LoadError(f"error {error} at step {self._step} of a transaction")
        elif self._step > len(self._batches):
            self._finish()
        else:
            if self._step:
                partition, records, _ = self._batches[self._step - 1]
                self._sequences[partition] += records
            self._step += 1

    def _error(self, answer: bytearray, start: int) -> int:
        if self._step == 0:
            return transaction_frames.add_partitions_error(answer, start, self._topic)
        if self._step <= len(self._batches):
            error_of = frames.produce_error if self._version == 1 else transaction_frames.produce_v2_error
            return error_of(answer, start, self._topic)
        if self._version == 1:
            return transaction_frames.end_error(answer, start)
        error, ids = transaction_frames.ended_v2(answer, start)
        if not error:
            self.ids = ids
            self._sequences = dict.fromkeys(self._partitions, 0)
        return error

    def _finish(self) -> None:
        self.commit_s.append(time.perf_counter() - self._began)
        self.ended += 1
        self._step, self._began = self._first_step, 0.0


def begin(peer: Peer, transactional_id: bytes) -> frames.Ids:
    """Find the coordinator, and get an id and an epoch; wait while the broker creates the topic."""
    with contextlib.closing(connect(peer.address)) as connection:
        find = transaction_frames.find_coordinator(transactional_id)
        until(lambda: transaction_frames.find_coordinator_error(call(connection, find)) not in NOT_YET)
        init = transaction_frames.init_producer_id(transactional_id)
        error, ids = transaction_frames.producer_ids(call(connection, init), 0)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while error:
            if error not in (*NOT_YET, CONCURRENT_TRANSACTIONS) or time.monotonic() > deadline:
                raise LoadError(f"InitProducerId error {error}")
            time.sleep(0.01)
            error, ids = transaction_frames.producer_ids(call(connection, init), 0)
    return ids


def until(condition: Callable[[], bool], pause_s: float = 0.01) -> None:
    """Wait before the next attempt."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise LoadError("the coordinator of transactions does not come up")
        time.sleep(pause_s)


def transactions(peer: Peer, scale: float, *, version: int, records: int, size: int, batches: int) -> Figures:
    """Four producers, each on its own partition and the next one's: `batches` requests and a commit, again and again."""
    topic = new_topic(peer, LINKS)
    body = frames.record_batch(records, size)[frames.BATCH_HEADER :]
    producers = [
        Producer(peer, topic, [((number + step) % 2, records, body) for step in range(batches)], version=version) for number in range(LINKS)
    ]
    requests = batches + (2 if version == 1 else 1)
    run_producers(peer, producers, max(20, int(1500 * min(scale, 1.0))) * requests)
    for producer in producers:
        producer.commit_s.clear()
        producer.ended = producer.asked_again = 0
    cpu = peer.cpu_seconds()
    seconds = run_producers(peer, producers, max(100, int(3000 * scale)) * requests)
    cpu = peer.cpu_seconds() - cpu
    ended = sum(producer.ended for producer in producers)
    commit_s = sorted(each for producer in producers for each in producer.commit_s)
    return {
        "transactions/s": ended / seconds,
        "CPU us/transaction": cpu / ended * 1e6,
        "EndTxn p50 us": percentile_us(commit_s, 0.50),
        "EndTxn p99 us": percentile_us(commit_s, 0.99),
        "asked again/transaction": sum(producer.asked_again for producer in producers) / ended,
    }


def run_producers(peer: Peer, producers: list[Producer], total: int) -> float:
    """Return the seconds for `total` requests; an open transaction continues in the next run."""
    with pumping(peer, depth=1, links=len(producers)) as pump:

        def check(link: Link, answer: bytearray, start: int, _: int) -> None:
            producers[link.number].answered(answer, start)

        return pump.run(total, lambda link, _: producers[link.number].request(), check)


def fetch_committed(peer: Peer, scale: float) -> Figures:
    """As the load of Fetch, under read_committed: four producers wrote into every partition, each fifth transaction was aborted."""
    topic = new_topic(peer, LINKS)
    records, batches = 16, LINKS
    body = frames.record_batch(records, 1000)[frames.BATCH_HEADER :]
    producers = [
        Producer(peer, topic, [((number + step) % LINKS, records, body) for step in range(batches)], version=2, abort_each=5)
        for number in range(LINKS)
    ]
    requests = max(LINKS * 5, int(256e6 * min(scale, 1.0) / (batches * len(body))))
    run_producers(peer, producers, requests * (batches + 1))
    read_bytes = 0

    def following(link: Link, _: int) -> bytes:
        return frames.fetch(topic, link.number, link.offset, FETCH_BYTES, max_wait_ms=0, committed=True)

    def check(link: Link, answer: bytearray, start: int, _: int) -> None:
        nonlocal read_bytes
        error, position, end = frames.fetched(answer, start, topic)
        if error:
            raise LoadError(f"Fetch error {error}")
        after = frames.offset_after(answer, position, end, link.offset)
        link.offset = 0 if after == link.offset else after
        read_bytes += end - position

    with pumping(peer, depth=1) as pump:
        pump.run(max(20, int(2000 * min(scale, 1.0))), following, check)
        read_bytes = 0
        cpu = peer.cpu_seconds()
        seconds = pump.run(max(100, int(1e9 * scale / FETCH_BYTES)), following, check)
        cpu = peer.cpu_seconds() - cpu
    return {"MB/s": read_bytes / seconds / 1e6, "CPU s/GB": cpu / (read_bytes / 1e9)}


def many_ids(peer: Peer, scale: float) -> Figures:
    """10,000 transactional ids, one in ten with a committed transaction and one in a hundred with an open one: until all are described."""
    topic = new_topic(peer, LINKS)
    ids = [b"id-%d" % number for number in range(max(100, int(IDS * scale)))]
    first = min(len(ids) // 2, FIRST_IDS)
    known: dict[bytes, frames.Ids] = {each: begin(peer, each) for each in ids[:first]}
    _init_all(peer, ids[first:], known)
    _leave(peer, topic, ids[::10], known, commit=True)
    _leave(peer, topic, ids[5::100], known, commit=False)
    until(lambda: _states(peer, ids).get(b"Ongoing") == len(ids[5::100]) and b"PrepareCommit" not in _states(peer, ids))
    before = _states(peer, ids)
    peer.stop(keep=True)
    os.sync()
    stopped = _restart(peer, ids, before)
    memory = peer.memory_mb()
    peer.kill()
    os.sync()
    return {"start after a stop s": stopped, "memory MB": memory, "start after SIGKILL s": _restart(peer, ids, before)}


def _init_all(peer: Peer, ids: list[bytes], known: dict[bytes, frames.Ids]) -> None:
    sent: dict[int, bytes] = {}

    def following(link: Link, number: int) -> bytes:
        sent[link.number] = ids[number]
        return transaction_frames.init_producer_id(ids[number])

    def check(link: Link, answer: bytearray, start: int, _: int) -> None:
        error, known[sent[link.number]] = transaction_frames.producer_ids(answer, start)
        if error:
            raise LoadError(f"InitProducerId error {error}")

    with pumping(peer, depth=1) as pump:
        pump.run(len(ids), following, check)


def _leave(peer: Peer, topic: bytes, ids: list[bytes], known: dict[bytes, frames.Ids], *, commit: bool) -> None:
    """Write a transaction of one record for each id, committed or left open."""
    body = frames.record_batch(1, 100)[frames.BATCH_HEADER :]
    with contextlib.closing(connect(peer.address)) as connection:
        for number, each in enumerate(ids):
            batch = frames.transactional_batch(1, body, known[each], 0)
            request = transaction_frames.produce_v2(each, topic, number % LINKS, batch)
            until(partial(_is_taken, connection, request, topic))
            if commit:
                error, _ = transaction_frames.ended_v2(call(connection, transaction_frames.end_v2(each, known[each], commit=True)), 0)
                if error:
                    raise LoadError(f"EndTxn error {error}")


def _is_taken(connection: socket.socket, request: bytes, topic: bytes) -> bool:
    error = transaction_frames.produce_v2_error(call(connection, request), 0, topic)
    if error not in (0, CONCURRENT_TRANSACTIONS, *NOT_YET):
        raise LoadError(f"Produce error {error}")
    return error == 0


def _states(peer: Peer, ids: list[bytes]) -> dict[bytes, int]:
    """Return how many transactional ids are in each state; fewer than all of them while they are loaded."""
    found: dict[bytes, int] = {}
    with contextlib.closing(connect(peer.address)) as connection:
        for number in range(0, len(ids), DESCRIBED_AT_ONCE):
            request = transaction_frames.describe(ids[number : number + DESCRIBED_AT_ONCE])
            for error, state in transaction_frames.described(call(connection, request)):
                if error:
                    return found
                found[state] = found.get(state, 0) + 1
    return found


def _restart(peer: Peer, ids: list[bytes], before: dict[bytes, int]) -> float:
    """Return the seconds from exec until every transactional id has its former state."""
    started = time.perf_counter()
    peer.start()
    until(lambda: _states(peer, ids) == before, 0.005)
    return time.perf_counter() - started


_NEEDS = frozenset({Need.KEEPS, Need.TRANSACTIONS})
LOADS = (
    Load(
        "transactions 4 x 16 kB",
        partial(transactions, version=2, records=16, size=1000, batches=4),
        "Transactions",
        seconds=20,
        quick=0.2,
        needs=_NEEDS,
    ),
    Load(
        "transactions 1 x 100 B", partial(transactions, version=2, records=1, size=100, batches=1), "Transactions", seconds=20, needs=_NEEDS
    ),
    Load(
        "transactions of old clients 4 x 16 kB",
        partial(transactions, version=1, records=16, size=1000, batches=4),
        "Transactions",
        seconds=25,
        needs=_NEEDS,
    ),
    Load("fetch committed 1 MiB", fetch_committed, "Transactions", needs=_NEEDS),
    Load("10,000 transactional ids", many_ids, "Transactions", seconds=60, needs=_NEEDS | {Need.RESTART}),
)
