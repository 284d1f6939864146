"""With an authorizer, work on many topics, groups and access control entries is done in many turns. It is counted in calls of functions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k31_delete_acls as k31
from minibroker.schemas import k75_describe_topic_partitions as k75
from minibroker.security.acl import Operation, ResourceType
from minibroker.testing.memory_files import MemoryFiles
from tests.dispatch.test_long_answers import COUNT, NAMES, fill, serve
from tests.handlers.acls.test_k29_describe_acls import request
from tests.handlers.acls.test_k31_delete_acls import matching
from tests.support.access import acl, authorize
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.turns import calls_in, shortest_slices

CALLS_MAX = 15_000  #: in one turn: two or three milliseconds
GROUP = "with-many-topics"

REQUESTS: dict[str, Any] = {
    "Metadata with operations": k03.Request(topics=None, include_topic_authorized_operations=True),
    "Metadata of names, with operations": k03.Request(
        topics=[k03.Topic(name=name) for name in NAMES[:150]], include_topic_authorized_operations=True
    ),
    "ListGroups": k16.Request(states_filter=[], types_filter=[]),
    "OffsetFetch of all topics": k09.Request(groups=[k09.Group(group_id=GROUP, topics=None)], require_stable=False),
    "DescribeTopicPartitions": k75.Request(topics=[], response_partition_limit=1000),
    "DescribeAcls of all": request(),
    "DescribeAcls that finds nothing": request(principal_filter="User:nobody"),
    "DescribeAcls of a name": request(pattern_type_filter=2, resource_name_filter=NAMES[7]),
    "DeleteAcls that finds nothing": k31.Request(filters=[matching(principal_filter="User:nobody"), matching(host_filter="10.0.0.1")]),
}


def client_of_some(broker: BrokerInMemory) -> None:
    """Let the client see every second topic and group, by an entry for each."""
    lines = [f"ANONYMOUS READ {kind} {name}" for kind in ("TOPIC", "GROUP") for name in [*NAMES[::2], GROUP]]
    authorize(broker.services, [*lines, "ANONYMOUS ALTER CLUSTER kafka-cluster", "ANONYMOUS DESCRIBE TOPIC large"], super_users=[])


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    logging.disable(logging.ERROR)
    broker = BrokerInMemory(config={"auto.create.topics.enable": "false"}, folder=Path("/data"), files=MemoryFiles())
    fill(broker)
    partitions = [k08.Partition(partition_index=0, committed_offset=0, committed_metadata="")]
    for start in range(0, COUNT, 100):
        topics = [k08.Topic(name=name, partitions=partitions) for name in NAMES[start : start + 100]]
        broker.ask(k08.Request(group_id=GROUP, member_id="", generation_id_or_member_epoch=-1, topics=topics), 9)
    broker.clock.advance(0)
    client_of_some(broker)
    yield broker
    logging.disable(logging.NOTSET)
    broker.cluster.close(clean=False)


def test_each_turn_is_bounded_and_the_answer_is_unchanged(broker: BrokerInMemory) -> None:
    for name, each in REQUESTS.items():
        broker.services.slices.now_s = lambda: 0.0
        version = 9 if name == "OffsetFetch of all topics" else None
        expected = broker.ask(each, version)
        shortest_slices(broker)
        authorizer: Any = broker.services.authorizer
        authorizer.add(acl(f"bob READ TOPIC {name.replace(' ', '-')}"))  # forgets decisions
        authorizer.remove(acl(f"bob READ TOPIC {name.replace(' ', '-')}"))
        answer, counts = serve(broker, each, version)
        if name == "OffsetFetch of all topics":
            del counts[0]  # the handler itself has one turn
        assert max(counts) <= CALLS_MAX, (name, counts)
        assert len(counts) >= 4, name
        assert answer == expected, name


def test_entries_that_are_deleted_meanwhile_are_not_deleted_twice(broker: BrokerInMemory) -> None:
    shortest_slices(broker)
    first = broker.begin(k31.Request(filters=[matching(resource_type_filter=ResourceType.TOPIC)]))
    second = broker.begin(k31.Request(filters=[matching(resource_type_filter=ResourceType.TOPIC)]))
    broker.clock.advance(1)
    answers = [len(each.answer().filter_results[0].matching_acls) for each in (first, second)]
    assert answers[0] == COUNT // 2 + 2
    stored: Any = broker.services.acls
    assert {each.resource_type for each in stored.authorizer._acls} == {ResourceType.GROUP, ResourceType.CLUSTER}
    assert len(broker.cluster.image.kept.acls) == len(stored.authorizer)


def test_deleting_many_entries_takes_many_turns(broker: BrokerInMemory) -> None:
    broker.ask(k31.Request(filters=[matching(principal_filter="User:nobody")]))
    shortest_slices(broker)
    _, counts = serve(broker, k31.Request(filters=[matching(principal_filter="User:ANONYMOUS", operation=Operation.READ)]))
    assert max(counts) <= 4 * CALLS_MAX
    assert len(counts) > 10


def test_a_question_about_any_topic_reads_the_entries_of_its_client_only(broker: BrokerInMemory) -> None:
    authorizer: Any = broker.services.authorizer
    assert calls_in(lambda: authorizer.is_allowed_by_type("User:bob", "10.0.0.1", Operation.WRITE, ResourceType.TOPIC)) < 100
