"""Answers that are long though their requests are short are made and encoded in many turns of the loop.

Work is counted in calls of functions.
"""

from __future__ import annotations

import heapq
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.directories.log_directory import LogDirectory
from minibroker.dispatch.slices import SORTED_AT_ONCE, in_order
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k35_describe_log_dirs as k35
from minibroker.schemas import k43_elect_leaders as k43
from minibroker.schemas import k46_list_partition_reassignments as k46
from minibroker.schemas import k48_describe_client_quotas as k48
from minibroker.schemas import k49_alter_client_quotas as k49
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.schemas import k66_list_transactions as k66
from minibroker.schemas import k74_list_config_resources as k74
from minibroker.schemas import k75_describe_topic_partitions as k75
from minibroker.testing.memory_files import MemoryFiles
from minibroker.wire.api import api_of
from tests.support.broker_in_memory import BrokerInMemory, Pending, frame_of
from tests.support.scram_credentials import upsertion
from tests.support.turns import calls_in, shortest_slices

COUNT = 1_500  #: of each thing
CALLS_MAX = 6_000  #: in one turn: about a millisecond or two
CALLS_OF_PAGE_MAX = 12_000  #: DescribeTopicPartitions has pages of 2,000 partitions at most, and 64 kB of names are decoded at once

NAMES = [f"name-{number % 7}-{number}" for number in range(COUNT)]

REQUESTS: dict[str, Any] = {
    "Metadata": k03.Request(topics=None),
    "Metadata of one topic": k03.Request(topics=[k03.Topic(name="large")]),
    "Metadata of two topics": k03.Request(topics=[k03.Topic(name="large"), k03.Topic(name=NAMES[5]), k03.Topic(name="missing")]),
    "ListGroups": k16.Request(states_filter=[], types_filter=[]),
    "DescribeLogDirs": k35.Request(topics=None),
    "DescribeLogDirs of one topic": k35.Request(topics=[k35.Topic(topic="large", partitions=list(range(COUNT)))]),
    "ElectLeaders": k43.Request(topic_partitions=None, timeout_ms=1),
    "ListPartitionReassignments": k46.Request(topics=None),
    "DescribeClientQuotas": k48.Request(components=[], strict=False),
    "DescribeUserScramCredentials": k50.Request(users=None),
    "ListTransactions": k66.Request(state_filters=[], producer_id_filters=[]),
    "ListConfigResources": k74.Request(resource_types=[]),
    "DescribeTopicPartitions": k75.Request(topics=[]),
    "DescribeTopicPartitions of names": k75.Request(topics=[k75.Topic(name=f"missing-{name}") for name in [*NAMES, *NAMES]]),
}


def fill(broker: BrokerInMemory) -> None:
    """Make COUNT of everything that can be listed."""
    cluster = broker.cluster
    cluster.create_topics([cluster.new_topic(name, partition_count=1) for name in NAMES], at_first_use=True)
    cluster.create_topics([cluster.new_topic("large", partition_count=COUNT)], at_first_use=True)
    entries = [
        k49.Entry(
            entity=[k49.Entity(entity_type="client-id", entity_name=name)],
            ops=[
                k49.Operation(key="producer_byte_rate", value=1e9, remove=False),
                k49.Operation(key="consumer_byte_rate", value=1e9, remove=False),
            ],
        )
        for name in NAMES
    ]
    for start in range(0, COUNT, 500):
        broker.ask(k49.Request(entries=entries[start : start + 500], validate_only=False))
        broker.ask(k51.Request(deletions=[], upsertions=[upsertion(name) for name in NAMES[start : start + 500]]))
    broker.ask(k10.Request(key_type=0, coordinator_keys=["g"]))
    broker.ask(k10.Request(key_type=1, coordinator_keys=["t"]))
    partition = k08.Partition(partition_index=0, committed_offset=0, committed_metadata="")
    for name in NAMES:
        topic = k08.Topic(name=NAMES[0], partitions=[partition])
        broker.ask(k08.Request(group_id=name, member_id="", generation_id_or_member_epoch=-1, topics=[topic]), 9)
        broker.ask(k22.Request(transactional_id=name, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1))


def next_turn(broker: BrokerInMemory) -> None:
    """Run the next callback that is due now, without the timers of retention and the like."""
    timers = broker.clock._timers
    if timers[0][0] <= broker.clock._elapsed_ms:
        _, _, timer = heapq.heappop(timers)
        if timer.callback is not None:
            timer.callback()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInMemory]:
    logging.disable(logging.ERROR)
    broker = BrokerInMemory(config={"auto.create.topics.enable": "false"}, folder=Path("/data"), files=MemoryFiles())
    fill(broker)
    broker.clock.advance(0)  # logs of new topics are opened in turns of their own
    yield broker
    logging.disable(logging.NOTSET)
    broker.cluster.close(clean=False)


@pytest.mark.parametrize("name", REQUESTS)
def test_each_step_is_bounded_and_the_answer_is_unchanged(broker: BrokerInMemory, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogDirectory, "volume_bytes", lambda _: (10, 5))  # others write to the disk as well
    request = REQUESTS[name]
    broker.services.slices.now_s = lambda: 0.0
    expected = broker.ask(request)
    shortest_slices(broker)
    serve(broker, request)  # what is compiled and imported once
    answer, counts = serve(broker, request)
    assert max(counts) <= (CALLS_OF_PAGE_MAX if name.startswith("DescribeTopicPartitions") else CALLS_MAX)
    assert len(counts) > 5
    assert answer == expected


def serve(broker: BrokerInMemory, request: Any, version: int | None = None) -> tuple[Any, list[int]]:
    """The answer, and how many functions were called in each turn."""
    frame = frame_of(request, version)
    found: list[Any] = []
    counts = [calls_in(lambda: found.append(broker.dispatcher.dispatch(broker.connection, frame)))]
    api = api_of(sys.modules[type(request).__module__])
    pending = Pending(api, api.max_version if version is None else version, found[0])
    while not pending.is_done:
        counts.append(calls_in(lambda: next_turn(broker)))
    return pending.answer(), counts


def test_names_are_sorted_in_steps() -> None:
    names = [f"{number * 7919 % 10_007}" for number in range(5 * SORTED_AT_ONCE)]
    results: list[list[str]] = []

    def sort() -> Iterator[None]:
        results.append(list((yield from in_order(names))))

    assert sum(1 for _ in sort()) == 5
    assert results == [sorted(names)]


def test_pieces_with_long_answers_are_joined() -> None:
    broker = BrokerInMemory(topics={"small": 1}, config={"auto.create.topics.enable": "false"}, folder=Path("/data"), files=MemoryFiles())
    for name in ("large", "larger"):
        broker.cluster.create_topics([broker.cluster.new_topic(name, partition_count=COUNT)], at_first_use=True)
    names = ["small", *(f"missing-{number}" for number in range(150)), "large", *(f"gone-{number}" for number in range(150)), "larger"]
    request = k03.Request(topics=[k03.Topic(name=name) for name in names])
    shortest_slices(broker)
    answer, _ = serve(broker, request)
    assert [each.name for each in answer.topics] == names
    assert {each.name: len(each.partitions) for each in answer.topics if each.partitions} == {"small": 1, "large": COUNT, "larger": COUNT}
    assert [each.partition_index for each in answer.topics[-1].partitions] == list(range(COUNT))


def test_middleware_filters_long_answers() -> None:
    """With minibroker.like.kafka brokers do not know a new topic yet."""
    config = {"auto.create.topics.enable": "false", "minibroker.like.kafka": "true"}
    broker = BrokerInMemory(config=config, folder=Path("/data"), files=MemoryFiles())
    broker.cluster.create_topics([broker.cluster.new_topic(name, partition_count=1) for name in NAMES], at_first_use=True)
    shortest_slices(broker)
    new = k19.Topic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    broker.ask(k19.Request(topics=[new], timeout_ms=1000, validate_only=False))
    answer, counts = serve(broker, k03.Request(topics=None))
    assert len(counts) > 5
    assert sorted(each.name for each in answer.topics) == sorted(NAMES)
