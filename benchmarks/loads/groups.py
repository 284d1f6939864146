"""Loads of classic consumer groups: from a subscription to the first message, members that come and go, commits.

At the socket a member does what clients do, without their pauses: it asks again at once where the coordinator is not there yet, and
rejoins at the first heartbeat that requires it, where clients send one every 3 s by default. With confluent-kafka
and kafka-python it is what a user waits for: from subscribe() to the first record, the client's own start and pauses included.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Self

import frames
import group_frames
from peers import Need, Peer
from pump import Link, LoadError, call, connect, read_answer

from loads.common import FETCH_BYTES, LINKS, READY_TIMEOUT_S, new_topic, percentile_us, pumping
from loads.declaration import Figures, Load

NOT_YET = (14, 15, 16)  #: error codes of a coordinator that starts: loading, not available, not the coordinator (yet)
MEMBERS = 20
_names = count(time.time_ns() // 1_000_000)


def _new_group() -> bytes:
    return b"bench-group-%d" % next(_names)


def _asked(connection: socket.socket, request: bytes, error_of: Callable[[bytearray], int]) -> bytearray:
    """Return the answer, repeating the request while the coordinator starts; LoadError for any other error."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        answer = call(connection, request)
        error = error_of(answer)
        if not error:
            return answer
        if error not in NOT_YET or time.monotonic() > deadline:
            raise LoadError(f"error {error} of a group")
        time.sleep(0.001)


class Member:
    """One member on its own connection."""

    def __init__(self, peer: Peer, group: bytes, topic: bytes) -> None:
        self.connection = connect(peer.address)
        self.group, self.topic = group, topic
        self.member_id = b""
        self.generation = -1

    def __enter__(self) -> Self:
        """Return itself for a with statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.connection.close()

    def find_coordinator(self) -> None:
        """Find the coordinator; the first call of all makes the broker create `__consumer_offsets`."""
        _asked(self.connection, group_frames.find_coordinator(self.group), group_frames.find_coordinator_error)

    def get_id(self) -> None:
        """Get a member id by the first JoinGroup of a new member."""
        answer = _asked(self.connection, group_frames.join(self.group, b"", self.topic), _error_but_id_required)
        self.member_id = group_frames.joined(answer).member_id

    def send_join(self) -> None:
        """Send JoinGroup; the answer comes when all members have joined."""
        self.connection.sendall(group_frames.join(self.group, self.member_id, self.topic))

    def read_joined(self) -> group_frames.Joined:
        """Read the answer to JoinGroup."""
        found = group_frames.joined(read_answer(self.connection))
        if found.error:
            raise LoadError(f"JoinGroup error {found.error}")
        self.generation = found.generation
        return found

    def send_sync(self, found: group_frames.Joined) -> None:
        """Send SyncGroup; the leader's contains the assignments."""
        assignments = {each: group_frames.assignment(self.topic, [number]) for number, each in enumerate(found.members)}
        self.connection.sendall(group_frames.sync(self.group, self.generation, self.member_id, assignments))

    def read_synced(self) -> None:
        """Read the answer to SyncGroup, which ends a rebalance."""
        error = group_frames.synced_error(read_answer(self.connection))
        if error:
            raise LoadError(f"SyncGroup error {error}")

    def wait_for_rebalance(self) -> None:
        """Send heartbeats until one reports a rebalance: a member that rejoins earlier gets the old generation."""
        request = group_frames.heartbeat(self.group, self.generation, self.member_id)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while (error := group_frames.heartbeat_error(call(self.connection, request))) != group_frames.REBALANCE_IN_PROGRESS:
            if error or time.monotonic() > deadline:
                raise LoadError(f"Heartbeat error {error}")

    def leave(self) -> None:
        """Leave the group."""
        _asked(self.connection, group_frames.leave(self.group, self.member_id), group_frames.leave_error)


def _error_but_id_required(answer: bytearray) -> int:
    error = group_frames.joined(answer).error
    return 0 if error == group_frames.MEMBER_ID_REQUIRED else error


def _rebalance(members: list[Member], new: Member | None = None) -> None:
    """All members join, a new one first, and receive their partitions."""
    if new is not None:
        new.send_join()
    if members:
        members[0].wait_for_rebalance()
    for each in members:
        each.send_join()
    members = members if new is None else [*members, new]
    for each, found in [(each, each.read_joined()) for each in members]:
        each.send_sync(found)
    for each in members:
        each.read_synced()


def _first_record_s(peer: Peer, topic: bytes) -> float:
    """Return the seconds from the first request of a group of one to the first record."""
    started = time.perf_counter()
    with Member(peer, _new_group(), topic) as member:
        member.find_coordinator()
        member.get_id()
        _rebalance([], member)
        _asked(
            member.connection,
            group_frames.fetch_offset(member.group, topic, 0),
            lambda answer: group_frames.fetched_offset(answer, topic)[0],
        )
        call(member.connection, frames.list_offsets(topic, 0, -2))
        error, position, end = frames.fetched(call(member.connection, frames.fetch(topic, 0, 0, FETCH_BYTES)), 0, topic)
        seconds = time.perf_counter() - started
        if error or position == end:
            raise LoadError(f"Fetch error {error}")
        member.leave()
    return seconds


def first_message(peer: Peer, scale: float) -> Figures:
    """Groups of one member, one after the other: the very first one of a broker, and those after it."""
    topic = new_topic(peer, 1)
    first = _first_record_s(peer, topic)
    for _ in range(max(10, int(300 * min(scale, 1.0)))):
        _first_record_s(peer, topic)
    cpu = peer.cpu_seconds()
    seconds = sorted(_first_record_s(peer, topic) for _ in range(max(20, int(300 * scale))))
    cpu = peer.cpu_seconds() - cpu
    return {
        "first group ms": first * 1000,
        "first message p50 us": percentile_us(seconds, 0.50),
        "first message p99 us": percentile_us(seconds, 0.99),
        "CPU us/group": cpu / len(seconds) * 1e6,
    }


def rebalance(peer: Peer, scale: float) -> Figures:
    """A member joins a group of twenty, all others rejoin at once, and it leaves again: until each has its partitions."""
    topic = new_topic(peer, MEMBERS + 1)
    joined: list[float] = []
    with contextlib.ExitStack() as held:
        group = _new_group()
        members = [held.enter_context(Member(peer, group, topic)) for _ in range(MEMBERS)]
        for number, each in enumerate(members):
            each.find_coordinator()
            each.get_id()
            _rebalance(members[:number], each)
        _come_and_go(peer, members, max(3, int(30 * min(scale, 1.0))))
        cpu = peer.cpu_seconds()
        joined = sorted(_come_and_go(peer, members, max(5, int(60 * scale))))
        cpu = peer.cpu_seconds() - cpu
    return {
        "rebalance of 20 p50 us": percentile_us(joined, 0.50),
        "rebalance of 20 p99 us": percentile_us(joined, 0.99),
        "CPU us/rebalance": cpu / (2 * len(joined)) * 1e6,
    }


def _come_and_go(peer: Peer, members: list[Member], times: int) -> list[float]:
    """Return the seconds from the JoinGroup of a new member to the last answered SyncGroup; its leaving is not timed."""
    found = []
    for _ in range(times):
        with Member(peer, members[0].group, members[0].topic) as new:
            started = time.perf_counter()
            new.get_id()
            _rebalance(members, new)
            found.append(time.perf_counter() - started)
            new.leave()
            _rebalance(members)
    return found


def commits(peer: Peer, scale: float) -> Figures:
    """Four members, each in a group of its own, that commit one offset a request, one request at a time."""
    topic = new_topic(peer, 1)
    total = max(400, int(20_000 * scale))
    with contextlib.ExitStack() as held:
        members = [held.enter_context(Member(peer, _new_group(), topic)) for _ in range(LINKS)]
        for each in members:
            each.find_coordinator()
            each.get_id()
            _rebalance([], each)

        def following(link: Link, number: int) -> bytes:
            member = members[link.number]
            return group_frames.commit_offset(member.group, member.generation, member.member_id, topic, number)

        def check(_: Link, answer: bytearray, start: int, __: int) -> None:
            error = group_frames.commit_error(answer, start, topic)
            if error:
                raise LoadError(f"OffsetCommit error {error}")

        with pumping(peer, depth=1) as pump:
            pump.run(max(400, int(20_000 * min(scale, 1.0))), following, check)
            cpu = peer.cpu_seconds()
            seconds = pump.run(total, following, check)
            cpu = peer.cpu_seconds() - cpu
    return {"commits/s": total / seconds, "CPU us/commit": cpu / total * 1e6}


def clients(peer: Peer, scale: float) -> Figures:
    """From subscribe() of a new consumer of a new group to its first record, with the settings that clients have by default."""
    topic = new_topic(peer, 1)
    at = f"127.0.0.1:{peer.port}"
    _first_record_s(peer, topic)  # afterwards the topic of committed offsets exists
    rounds = max(2, int(15 * scale))
    consumers = {"confluent-kafka": _confluent_s, "kafka-python": _kafka_python_s}
    return {
        f"first message, {name} p50 ms": statistics.median([measure(at, topic.decode()) for _ in range(rounds)]) * 1000
        for name, measure in consumers.items()
    }


def _confluent_s(at: str, topic: str) -> float:
    from confluent_kafka import Consumer  # noqa: PLC0415  other loads do without it

    consumer = Consumer({"bootstrap.servers": at, "group.id": _new_group().decode(), "auto.offset.reset": "earliest"})
    return _subscribed_s(consumer, topic, lambda: consumer.poll(1.0))


def _kafka_python_s(at: str, topic: str) -> float:
    from kafka import KafkaConsumer  # noqa: PLC0415  other loads do without it

    consumer = KafkaConsumer(bootstrap_servers=at, group_id=_new_group().decode(), auto_offset_reset="earliest")
    return _subscribed_s(consumer, topic, lambda: consumer.poll(1000))


def _subscribed_s(consumer: Any, topic: str, poll: Callable[[], object]) -> float:
    deadline = time.monotonic() + READY_TIMEOUT_S
    try:
        started = time.perf_counter()
        consumer.subscribe([topic])
        while not poll():
            if time.monotonic() > deadline:
                raise LoadError("no record for a consumer of a group")
        return time.perf_counter() - started
    finally:
        consumer.close()


_NEEDS = frozenset({Need.GROUPS})
LOADS = (
    Load("group, first message", first_message, "Groups", quick=0.2, needs=_NEEDS),
    Load("group, clients", clients, "Groups", seconds=20, needs=_NEEDS),
    Load("group of 20", rebalance, "Groups", quick=0.2, needs=_NEEDS),
    Load("group, commits", commits, "Groups", needs=_NEEDS),
)
