"""A request of more elements than its handler may see together is refused before the handler sees it."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.config import request_limits
from minibroker.dispatch import registry
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import ElementLimit, count_elements
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import InvalidRequest, NotCoordinator, PolicyViolation
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.schemas import k57_update_features as k57
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k88_streams_group_heartbeat as k88
from minibroker.wire.schema import replace
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.scram_credentials import SHA_256, upsertion
from tests.support.worst_frames import distinct, schemas, worst_frames

LIMITED = [handler for handler in registry.load() if handler.limit is not None]


def topology(topics: int) -> k88.Topology:
    """One subtopology that reads `topics` topics."""
    subtopology = k88.Subtopology(
        subtopology_id="0",
        source_topics=[str(number) for number in range(topics)],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return k88.Topology(epoch=0, subtopologies=[subtopology])


def test_elements_of_all_levels_count() -> None:
    heartbeat = k88.Request(group_id="g", member_id="m", member_epoch=0, endpoint_information_epoch=0, topology=topology(7))
    assert count_elements(heartbeat, 100) == 1 + 7
    owned = [k88.TaskIds(subtopology_id="0", partitions=[1, 2, 3])] * 2
    assert count_elements(replace(heartbeat, active_tasks=owned), 100) == 1 + 7 + 2 + 6


def test_counting_stops_after_the_limit() -> None:
    tasks: list[Any] = [object()] * 3  # they have no arrays, so looking into one of them fails
    heartbeat = k88.Request(group_id="g", member_id="m", member_epoch=0, endpoint_information_epoch=0, active_tasks=tasks)
    assert count_elements(heartbeat, 2) > 2


@pytest.mark.parametrize("handler", LIMITED, ids=lambda each: each.api.name)
@pytest.mark.parametrize("size", [3_000, 80_000], ids=["decoded_at_once", "decoded_in_slices"])
def test_the_handler_sees_no_request_above_the_limit(handler: Handler, size: int) -> None:
    memory = BrokerInMemory()
    schema = schemas[handler.api.key]
    assert handler.limit is not None
    for frame in worst_frames(schema, handler.api.max_version, size, distinct()):
        counts: list[int] = []

        def see(ctx: Any, request: Any, counts: list[int] = counts) -> Any:
            counts.append(count_elements(request, 1_000_000))
            raise PolicyViolation

        for limit in (None, ElementLimit(10)):
            memory.services.registry = Registry()
            memory.services.registry.add(Handler(handler.api, see, handler.module, handler.pieces, limit))
            memory.dispatcher.serve_from(memory.services)
            found = memory.dispatcher.dispatch(memory.connection, memoryview(bytearray(frame)))
            if isinstance(found, Delayed):
                memory.clock.advance(1000)
        assert len(counts) == 1
        assert counts[0] > 10


def test_the_answer_to_a_refused_request_is_an_error() -> None:
    broker = BrokerInMemory()
    most = request_limits.HEARTBEAT_ELEMENTS_MAX
    for count, error_code in ((most, NotCoordinator.code), (most + 1, InvalidRequest.code)):
        names = [f"topic-{number}" for number in range(count)]
        heartbeat = k68.Request(group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000)
        heartbeat = replace(heartbeat, subscribed_topic_names=names, topic_partitions=[])
        assert broker.ask(heartbeat).error_code == error_code
    updates = [k57.FeatureUpdate(feature=str(number), max_version_level=1) for number in range(request_limits.FEATURE_UPDATES_MAX + 1)]
    assert broker.ask(k57.Request(timeout_ms=1, feature_updates=updates)).error_code == InvalidRequest.code


def test_too_many_credentials_change_none() -> None:
    broker = BrokerInMemory()
    most = request_limits.SCRAM_CHANGES_MAX
    users = [upsertion(f"user-{number}") for number in range(most)]
    deletion = k51.Deletion(name="gone", mechanism=SHA_256)
    answer = broker.ask(k51.Request(deletions=[deletion], upsertions=users))
    assert [each.user for each in answer.results] == ["gone", *(each.name for each in users)]
    assert {each.error_code for each in answer.results} == {PolicyViolation.code}
    assert not broker.cluster.image.kept.scram_credentials
    answer = broker.ask(k51.Request(deletions=[], upsertions=users))
    assert {each.error_code for each in answer.results} == {0}


def test_resource_with_too_many_configs_is_refused_alone() -> None:
    broker = BrokerInMemory(topics={"a": 1, "b": 1})
    names = [f"config-{number}" for number in range(request_limits.CONFIGS_OF_RESOURCE_MAX + 1)]
    alter = k33.Request(
        resources=[
            k33.Resource(resource_type=2, resource_name="a", configs=[k33.Config(name=each, value="1") for each in names]),
            k33.Resource(resource_type=2, resource_name="b", configs=[k33.Config(name="retention.ms", value="1000")]),
        ],
        validate_only=False,
    )
    increment = k44.Request(
        resources=[
            k44.Resource(
                resource_type=2, resource_name="a", configs=[k44.Config(name=each, config_operation=0, value="1") for each in names]
            ),
            k44.Resource(resource_type=2, resource_name="b", configs=[k44.Config(name="retention.ms", config_operation=0, value="1000")]),
        ],
        validate_only=False,
    )
    for request in (alter, increment):
        codes = [(each.resource_name, each.error_code, each.error_message) for each in broker.ask(request).responses]
        assert codes == [("a", InvalidRequest.code, "A resource may have 1000 configs at most."), ("b", 0, None)]
    described = k32.Request(
        resources=[
            k32.Resource(resource_type=2, resource_name="a", configuration_keys=names),
            k32.Resource(resource_type=2, resource_name="b", configuration_keys=["retention.ms"]),
        ]
    )
    assert [(each.error_code, len(each.configs)) for each in broker.ask(described).results] == [(InvalidRequest.code, 0), (0, 1)]
