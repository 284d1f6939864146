"""StreamsGroupHeartbeat through the dispatcher. What it answers when: tests/coordinator/group/streams/test_golden_scenes.py."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.cluster.metadata.features import SAFE_DOWNGRADE, STREAMS_VERSION_FEATURE
from minibroker.config.request_limits import STREAMS_SUBTOPOLOGIES_MAX
from minibroker.errors import StreamsInvalidTopology
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k57_update_features as k57
from minibroker.schemas import k88_streams_group_heartbeat as schema
from minibroker.schemas import k89_streams_group_describe as k89
from tests.golden.streams_scenes import COUNTING, READING, subtopology, topic, topology
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import broker_with_groups

AT_ONCE = {"group.streams.assignment.interval.ms": "0", "group.streams.initial.rebalance.delay.ms": "0"}
NONE: dict[str, list[Any]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def broker_with_streams(**config: str) -> BrokerInMemory:
    """With a topic `t` of four partitions; assigns at once."""
    return broker_with_groups({"t": 4}, AT_ONCE | {name.replace("_", "."): value for name, value in config.items()})


def beat(broker: BrokerInMemory, member_id: str, epoch: int, **said: Any) -> Any:
    known: dict[str, Any] = {"group_id": "app", "endpoint_information_epoch": -1}
    return broker.ask(schema.Request(member_id=member_id, member_epoch=epoch, **(known | said)))


def join(broker: BrokerInMemory, member_id: str, *, of: schema.Topology = READING) -> Any:
    return beat(broker, member_id, 0, rebalance_timeout_ms=60_000, topology=of, process_id=member_id, **NONE)


def active(answer: Any) -> dict[str, list[int]]:
    assert answer.error_code == 0, answer
    return {each.subtopology_id: each.partitions for each in answer.active_tasks}


def state(broker: BrokerInMemory) -> str:
    (group,) = broker.ask(k89.Request(group_ids=["app"], include_authorized_operations=False)).groups
    return str(group.group_state)


def test_internal_topics_are_created_as_requested() -> None:
    broker = broker_with_streams()
    assert active(join(broker, "a", of=COUNTING)) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    topics = broker.cluster.topics
    assert {name: (len(topics[name].partitions), topics[name].config) for name in ("words", "counts")} == {
        "words": (4, {"retention.ms": "-1"}),
        "counts": (4, {"cleanup.policy": "compact"}),
    }
    assert state(broker) == "Stable"


def test_failed_internal_topic_is_reported() -> None:
    broker = broker_with_streams()
    answer = join(broker, "a", of=topology(subtopology("0", ["t"], state_changelog_topics=[topic("counts", nonsense="1")])))
    detail = "Internal topics are missing: counts; Creation failed: counts (Unknown topic config name: nonsense)."
    assert [(each.status_code, each.status_detail) for each in answer.status] == [(3, detail)]
    assert state(broker) == "NotReady"


@pytest.mark.parametrize("is_clean", [True, False])
def test_group_survives_a_restart(is_clean: bool) -> None:
    broker = broker_with_streams()
    join(broker, "a")
    assert active(beat(broker, "a", 0, rebalance_timeout_ms=1, topology=READING, process_id="a", **NONE)) == {"0": [0, 1, 2, 3]}
    broker = broker.restart(clean=is_clean)
    assert beat(broker, "a", 3).active_tasks is None
    (listed,) = broker.ask(k16.Request(states_filter=["stable"], types_filter=["Streams"])).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("app", "streams", "Stable", "streams")
    broker.clock.advance(45_000)
    assert state(broker) == "Empty"


def test_too_many_subtopologies_are_refused() -> None:
    broker = broker_with_streams()
    for count, code in ((STREAMS_SUBTOPOLOGIES_MAX + 1, StreamsInvalidTopology.code), (STREAMS_SUBTOPOLOGIES_MAX, 0)):
        of = topology(*(subtopology(str(number), ["t"]) for number in range(count)))
        answer = join(broker, "one", of=of)
        assert answer.error_code == code
        assert (str(STREAMS_SUBTOPOLOGIES_MAX) in (answer.error_message or "")) == bool(code)


def test_unsupported_if_the_feature_or_protocol_is_off() -> None:
    broker = broker_with_streams()
    join(broker, "a")
    update = k57.FeatureUpdate(feature=STREAMS_VERSION_FEATURE, max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    assert broker.ask(k57.Request(timeout_ms=1_000, feature_updates=[update], validate_only=False)).error_code == 0
    assert beat(broker, "a", 2).error_code == 35
    assert (
        broker_with_streams(group_coordinator_rebalance_protocols="classic,consumer")
        .ask(k89.Request(group_ids=["app"], include_authorized_operations=False))
        .groups[0]
        .error_code
        == 35
    )
