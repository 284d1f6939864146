"""Names, ids and sessions by the hundred thousand that stay in memory."""

from __future__ import annotations

import contextlib
import struct
import time
from collections import Counter
from collections.abc import Iterator
from itertools import repeat

import frames
import transaction_frames

from attacking import requests
from attacking.declaration import TOPIC, Target, attack, open_files

_CODES = {79: "MEMBER_ID_REQUIRED", 81: "GROUP_MAX_SIZE_REACHED"}


@attack("Metadata: 1,000 new topics", "one request")
def auto_created(target: Target) -> None:
    """Metadata requests create the topics."""
    target.ask(requests.metadata([b"auto-%d" % number for number in range(target.count(1000))]))


@attack("CreateTopics: 1,000 topics", "one request")
def created(target: Target) -> None:
    """An administrator creates the topics."""
    target.ask(requests.create_topics([b"new-%d" % number for number in range(target.count(1000))]))


@attack("100,000 topics", "CreateTopics of 500 at a time; listed and described as Java's admin client does; a restart", restarts=True)
def many_topics(target: Target) -> None:
    """Each DescribeTopicPartitions requests all remaining partitions and receives 2,000."""
    names = sorted(b"topic-%d" % number for number in range(target.count(100_000)))
    with _timed(target, "created"):
        target.ask_each((requests.create_topics(some) for some in _pieces(names, 500)), 1)
    with _timed(target, "listed"):
        target.ask(requests.metadata(None))
    with _timed(target, "described by DescribeTopicPartitions"):
        pages = (requests.describe_topic_partitions(names[at:], 2000) for at in range(0, len(names), 2000))
        target.ask_each(pages, 1)
    with _timed(target, "described by Metadata"):
        target.ask_each((requests.metadata(some) for some in _pieces(names, 1000)), 1)
    target.note(f"{open_files(target.pid)} files open")


@contextlib.contextmanager
def _timed(target: Target, what: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    target.note(f"{what} in {time.perf_counter() - started:.1f} s")


def _pieces(names: list[bytes], size: int) -> Iterator[list[bytes]]:
    for at in range(0, len(names), size):
        yield names[at : at + size]


def _group(target: Target) -> None:
    target.ask(requests.find_coordinator(b"g", 0))


@attack("a million member ids of one group", "JoinGroup 4 without an id", prepare=_group)
def member_ids(target: Target) -> None:
    """Ids live for the session timeout and are bounded by group.max.size."""
    codes = Counter[int]()
    frame = requests.join_group(b"g", 4)
    target.ask_each(repeat(frame, target.count(1_000_000)), look=lambda answer: codes.update([requests.join_error(answer)]))
    target.note(", ".join(f"{count} times {_CODES.get(code, code)}" for code, count in sorted(codes.items())))


@attack("a million member ids of 200 groups", "JoinGroup 4 without an id, 5,000 times for each group", prepare=_group)
def member_ids_of_groups(target: Target) -> None:
    """The count stays below group.max.size."""
    codes = Counter[int]()
    joins = (requests.join_group(b"g-%d" % (number // 5000), 4) for number in range(target.count(1_000_000)))
    target.ask_each(joins, look=lambda answer: codes.update([requests.join_error(answer)]))
    target.note(", ".join(f"{count} times {_CODES.get(code, code)}" for code, count in sorted(codes.items())))


@attack("2,000 members of a classic group", "JoinGroup 3 in one group, each on a connection", prepare=_group)
def classic_members(target: Target) -> None:
    """All members wait for each other."""
    for _ in range(target.count(2000)):
        target.connect().sendall(requests.join_group(b"g", 3))
    target.ask(frames.frame(12, 0, frames.string(b"g") + struct.pack(">i", 1) + frames.string(b"x")))


@attack("3,000 members of a consumer group", "ConsumerGroupHeartbeat 1, all of one group and 100 partitions", prepare=_group)
def consumer_members(target: Target) -> None:
    """Each member may change the assignment of all."""
    target.create_topic(partitions=100)
    heartbeats = [requests.consumer_heartbeat(b"g", b"member-%d" % number, 0, [TOPIC]) for number in range(target.count(3000))]
    target.ask_each(heartbeats)


@attack("20,000 groups with names of 30,000 letters", "OffsetCommit 2, 600 MB of names", prepare=_group)
def long_names(target: Target) -> None:
    """Each group commits one offset."""
    target.create_topic()
    end = b"g" * 29_990
    target.ask_each(requests.offset_commit(b"%d-" % number + end, TOPIC, [0], b"") for number in range(target.count(20_000)))


@attack("commit metadata of 1 GB", "OffsetCommit 2: 250,000 times 4,000 letters", prepare=_group)
def commit_metadata(target: Target) -> None:
    """1,250 groups, 200 partitions each: a request becomes one batch of 0.8 MB, and 1 MB is the most that the topic takes."""
    target.create_topic(partitions=200)
    note = b"m" * 4000
    codes = Counter[int]()
    commits = (requests.offset_commit(b"group-%d" % number, TOPIC, range(200), note) for number in range(target.count(1250)))
    target.ask_each(commits, 2, look=lambda answer: codes.update([requests.commit_error(answer)]))
    target.note(", ".join(f"{count} times error {code}" for code, count in sorted(codes.items())))


@attack("a million producer ids", "InitProducerId 1 without a transactional id")
def producer_ids(target: Target) -> None:
    """Producer ids are assigned in blocks, and none is stored."""
    answers = target.ask_each(repeat(requests.idempotent_producer(), target.count(1_000_000)))
    target.note(f"{answers} answers")


@attack("100,000 transactional ids", "InitProducerId 1")
def transactional_ids(target: Target) -> None:
    """Transactional ids are kept for a week."""
    target.ask(requests.find_coordinator(b"t", 1))
    target.ask_each(transaction_frames.init_producer_id(b"transactional-%d" % number) for number in range(target.count(100_000)))


@attack("100,000 producers of one partition", "Produce 7, each of another producer id")
def producers_of_a_partition(target: Target) -> None:
    """The partition keeps the last batches of each for a day."""
    target.create_topic()
    body = frames.record_batch(1, 1)[frames.BATCH_HEADER :]
    batches = (frames._batch(1, body, frames.Ids(number, 0), 0) for number in range(target.count(100_000)))  # noqa: SLF001  no load needs it
    target.ask_each(frames.produce(TOPIC, 0, batch) for batch in batches)


@attack("fetch sessions", "5,000 sessions of 1,000 partitions")
def fetch_sessions(target: Target) -> None:
    """One client opens a new session with each request."""
    target.create_topic(partitions=1000)
    answers = target.ask_each(repeat(requests.fetch_session(TOPIC, 1000), target.count(5000)), 2)
    target.note(f"{answers} answers")


@attack("share sessions", "3,000 members of a share group, each with a session of 100 partitions", prepare=_group)
def share_sessions(target: Target) -> None:
    """All sessions stay open."""
    target.create_topic(partitions=100)
    topic_id = requests.topic_id_of(target.ask(requests.metadata_with_ids(TOPIC)), TOPIC)
    for number in range(target.count(3000)):
        member = b"member-%d" % number
        link = target.connect()
        target.ask(requests.share_heartbeat(b"s", member, TOPIC), link)
        target.ask(requests.share_fetch(b"s", member, topic_id, 100), link)


@attack("20,000 client quotas", "AlterClientQuotas 0")
def client_quotas(target: Target) -> None:
    """Each quota is of another client id."""
    target.ask_each(requests.alter_client_quota(b"client-%d" % number) for number in range(target.count(20_000)))


@attack("20,000 SCRAM credentials", "AlterUserScramCredentials 0")
def scram(target: Target) -> None:
    """Each credential is of another user."""
    target.ask_each(requests.scram_credential(b"user-%d" % number) for number in range(target.count(20_000)))


@attack("20,000 configs of groups and client metrics", "IncrementalAlterConfigs 0")
def own_configs(target: Target) -> None:
    """Each has another name."""
    half = target.count(10_000)
    target.ask_each(frames.alter_config(32, b"group-%d" % number, b"consumer.session.timeout.ms", b"50000") for number in range(half))
    target.ask_each(frames.alter_config(16, b"metrics-%d" % number, b"interval.ms", b"10000") for number in range(half))
