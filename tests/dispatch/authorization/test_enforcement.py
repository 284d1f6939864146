"""What a client may not do with an authorizer: sessions, groups, faults, several brokers, and nothing without an authorizer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.dispatch import registry
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.errors import WireError
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k12_heartbeat as k12
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k69_consumer_group_describe as k69
from minibroker.schemas import k78_share_fetch as k78
from tests.support.access import ADMIN, acl, authorize
from tests.support.authorized_requests import MEMBER, batch, streams_heartbeat
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.nodes_in_memory import NodesInMemory
from tests.support.opcodes import least_opcodes

ALICE = "User:alice"


def broker(*acls: str, topics: tuple[str, ...] = ("orders", "secret"), **config: str) -> BrokerInMemory:
    made = BrokerInMemory(topics=dict.fromkeys(topics, 1), config=config)
    authorize(made.services, acls)
    made.services.coordinators.groups.ensure_topic()
    made.connection.principal = ALICE
    return made


def fetch(*topics: Any, **changes: Any) -> k01.Request:
    fields: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "session_id": 0, "session_epoch": 0}
    partitions = [
        k01.Topic(topic_id=each, partitions=[k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)]) for each in topics
    ]
    return k01.Request(**(fields | {"topics": partitions} | changes))


def codes(response: k01.Response, made: BrokerInMemory) -> dict[str, int]:
    names = {topic.topic_id: name for name, topic in made.cluster.topics.items()}
    return {names[topic.topic_id]: each.error_code for topic in response.responses for each in topic.partitions}


def ids(made: BrokerInMemory, *names: str) -> list[Any]:
    return [made.cluster.topics[name].topic_id for name in names]


# Fetch sessions


def test_denied_topic_is_neither_read_nor_waited_for() -> None:
    made = broker("alice READ TOPIC orders")
    made.append("secret", 0, records(1))
    answer = made.ask(fetch(*ids(made, "orders", "secret")))
    assert codes(answer, made) == {"orders": 0, "secret": 29}
    assert [len(each.records or b"") for topic in answer.responses for each in topic.partitions] == [0, 0]


def test_rights_that_are_taken_hold_in_an_open_session() -> None:
    made = broker("alice READ TOPIC orders", "alice READ TOPIC secret")
    stored = made.services.acls
    assert stored is not None
    opened = made.ask(fetch(*ids(made, "orders", "secret"), max_wait_ms=0))
    assert codes(opened, made) == {"orders": 0, "secret": 0}
    going_on = {"session_id": opened.session_id, "max_wait_ms": 0}
    assert made.ask(fetch(**going_on, session_epoch=1)).responses == []
    secret = acl("alice READ TOPIC secret")
    stored.authorizer.remove(secret)
    for epoch in (2, 3):  # it is refused again and again
        assert codes(made.ask(fetch(**going_on, session_epoch=epoch)), made) == {"secret": 29}
    made.append("secret", 0, records(1))
    assert codes(made.ask(fetch(**going_on, session_epoch=4)), made) == {"secret": 29}
    stored.authorizer.add(secret)
    answer = made.ask(fetch(**going_on, session_epoch=5))
    assert codes(answer, made) == {"secret": 0}
    assert answer.responses[0].partitions[0].records


def test_after_a_refused_topic_was_forgotten_the_session_waits_again() -> None:
    made = broker("alice READ TOPIC orders")
    opened = made.ask(fetch(*ids(made, "orders", "secret")))
    forgotten = [k01.ForgottenTopic(topic_id=each, partitions=[0]) for each in ids(made, "secret")]
    made.begin(fetch(session_id=opened.session_id, session_epoch=1, forgotten_topics_data=forgotten))
    waiting = made.begin(fetch(session_id=opened.session_id, session_epoch=2))
    assert not waiting.is_done


def test_session_checks_the_rights_of_each_principal() -> None:
    made = broker("alice READ TOPIC orders")
    opened = made.ask(fetch(*ids(made, "orders"), max_wait_ms=0))
    made.append("orders", 0, records(1))
    made.connection.principal = "User:eve"
    answer = made.ask(fetch(session_id=opened.session_id, session_epoch=1))
    assert codes(answer, made) == {"orders": 29}


def test_acknowledgements_of_a_refused_topic_are_not_processed() -> None:
    made = broker("alice READ GROUP g", "alice READ TOPIC orders")
    topics = [
        k78.Topic(topic_id=each, partitions=[k78.Partition(partition_index=0, acknowledgement_batches=[])]) for each in ids(made, "secret")
    ]
    common: dict[str, Any] = {"group_id": "g", "member_id": MEMBER, "max_wait_ms": 0, "min_bytes": 0, "max_records": 10, "batch_size": 1}
    opened = made.ask(k78.Request(**common, share_session_epoch=0, topics=topics, forgotten_topics_data=[]))
    assert [each.error_code for topic in opened.responses for each in topic.partitions] == [29]
    acknowledged = k78.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    topics[0].partitions[0].acknowledgement_batches = [acknowledged]  # type: ignore[misc]
    answer = made.ask(k78.Request(**common, share_session_epoch=1, topics=topics, forgotten_topics_data=[]))
    assert [(each.error_code, each.acknowledge_error_code) for topic in answer.responses for each in topic.partitions] == [(29, 29)]


# Produce


def produce(acks: int, *names: str) -> k00.Request:
    topics = [k00.Topic(name=name, partition_data=[k00.Partition(index=0, records=batch())]) for name in names]
    return k00.Request(acks=acks, timeout_ms=1000, topic_data=topics)


def test_produce_without_acks_appends_allowed_topics_and_closes() -> None:
    made = broker("alice WRITE TOPIC orders")
    with pytest.raises(WireError, match="refused"):
        made.ask(produce(0, "orders", "secret"), 9)
    assert [made.cluster.partition(name, 0).log.log_end_offset for name in ("orders", "secret")] == [1, 0]
    with pytest.raises(WireError, match="refused"):
        made.ask(produce(0, "secret"), 9)


# Groups


def test_regex_matches_only_describable_topics() -> None:
    made = broker("alice READ GROUP g", "alice DESCRIBE TOPIC orders", topics=("orders", "orders-secret"))
    joins = k68.Request(
        group_id="g", member_id=MEMBER, member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_regex="orders.*", topic_partitions=[]
    )
    answer = made.ask(joins)
    for _ in range(5):
        made.clock.advance(1100)
        answer = made.ask(k68.Request(group_id="g", member_id=MEMBER, member_epoch=answer.member_epoch))
    made.connection.principal = ADMIN
    (group,) = made.ask(k69.Request(group_ids=["g"], include_authorized_operations=False)).groups
    assert [each.topic_name for member in group.members for each in member.target_assignment.topic_partitions] == ["orders"]


def test_leaving_member_does_not_resolve_regexes_as_the_broker() -> None:
    made = broker("alice READ GROUP g", "alice DESCRIBE TOPIC orders", topics=("orders", "orders-secret"))
    for member in (MEMBER, "tqOq6pKTRtyfbWTSmVXuIg"):
        made.ask(
            k68.Request(
                group_id="g", member_id=member, member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_regex="o.*", topic_partitions=[]
            )
        )
    made.cluster.create_topic("o-new", partition_count=1)
    made.clock.advance(60_000)  # the members time out, and their group drops them
    topics = made.services.coordinators.groups.live.topics
    assert topics.client is None
    assert topics.matching("o.*") is None


@pytest.mark.parametrize(
    "further, detail",
    [
        ([], "Internal topics are missing: store-changelog; Unauthorized to CREATE on topics store-changelog."),
        (["alice CREATE TOPIC store-changelog"], None),
        (["alice CREATE CLUSTER kafka-cluster"], None),
    ],
)
def test_internal_topics_of_streams_are_created_by_the_rights_of_the_client(further: list[str], detail: str | None) -> None:
    made = broker("alice READ GROUP g", "alice READ TOPIC orders", "alice DESCRIBE TOPIC store-changelog", *further)
    answer = made.ask(streams_heartbeat("g", ["orders"], ("store-changelog",)))
    assert ("store-changelog" in made.cluster.topics) is (detail is None)
    assert [each.status_detail for each in answer.status if each.status_code == 3] == ([] if detail is None else [detail])


# Faults, several brokers, and quotas come after authorization


def test_simulated_brokers_do_not_reveal_refused_topics() -> None:
    nodes = NodesInMemory(3, topics={"orders": 3, "secret": 3})
    authorize(nodes.broker.services, ["alice READ TOPIC orders"])
    nodes.connection.principal = ALICE
    services = nodes.broker.services
    for dispatcher in nodes._dispatchers.values():
        seen = dispatcher._services
        seen.acls, seen.authorizer, seen.audit = services.acls, services.authorizer, services.audit

    def listed(name: str, at: int) -> list[int]:
        topics = [k02.Topic(name=name, partitions=[k02.Partition(partition_index=index, timestamp=-1) for index in range(3)])]
        answer = nodes.ask(k02.Request(replica_id=-1, topics=topics), at=at)
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    def fetched(name: str, at: int) -> list[int]:
        parts = [k01.Partition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(3)]
        request = fetch(session_epoch=-1, max_wait_ms=0, topics=[k01.Topic(topic=name, partitions=parts)])
        answer = nodes.ask(request, at=at, version=10)  # which only leaders serve
        return [each.error_code for topic in answer.responses for each in topic.partitions]

    for ask in (listed, fetched):
        assert sorted(ask("orders", 1)) == [0, 6, 6]
        assert ask("secret", 1) == ask("secret", 2) == [29, 29, 29]
    assert listed("missing", 1) == [29, 29, 29]


def test_middleware_does_not_see_denied_resources() -> None:
    made = broker("alice DESCRIBE TOPIC orders")
    seen: list[Any] = []

    def watch(handler: registry.Handler) -> registry.Handler:
        def serve(ctx: Any, request: Any) -> Any:
            seen.append(request)
            return handler.handle(ctx, request)

        return handler.around(serve)

    from minibroker.dispatch.middleware import wrapped

    made.services.registry = wrapped(registry.load(), watch)
    made.dispatcher = Dispatcher(made.services)
    own_request = k03.Request(topics=[k03.Topic(name="orders"), k03.Topic(name="secret")], allow_auto_topic_creation=True)
    answer = made.ask(own_request)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"orders": 0, "secret": 29}
    assert [[topic.name for topic in request.topics] for request in seen] == [["orders"]]
    assert made.ask(k50.Request(users=None)).error_code == 31
    assert len(seen) == 1


# Without an authorizer


def test_a_refused_describe_of_all_scram_users_is_answered() -> None:
    answer = broker().ask(k50.Request(users=None))
    assert (answer.error_code, answer.results) == (31, [])


def heartbeats(made: BrokerInMemory) -> Callable[[], Callable[[], object]]:
    request = k12.Request(group_id="g", generation_id=1, member_id="m")
    return lambda: lambda: made.ask(request)


def test_the_rights_of_a_client_cost_nothing_without_an_authorizer() -> None:
    """The plan of an API is the handler itself: no instruction more for a request."""
    made = BrokerInMemory(topics={"orders": 1})
    made.ask(produce(1, "orders"), 9)
    plan = made.dispatcher._plans[9]
    handler = made.services.registry.get(0)
    assert handler is not None
    assert plan.handle is handler.handle
    assert not any(name.startswith("minibroker.dispatch.authorization") for name in vars(sys.modules[type(plan).__module__]))


def test_cost_is_independent_of_the_number_of_acls() -> None:
    def cost(count: int) -> int:
        others = [f"user{number} ALL TOPIC orders" for number in range(count)]
        return least_opcodes(heartbeats(broker("alice READ GROUP g", *others)))

    assert cost(1000) == cost(1)


def test_an_authorizer_costs_little() -> None:
    """At most 5 % more instructions for the shortest request."""
    plain = BrokerInMemory(config={"offsets.topic.num.partitions": "1"})
    plain.services.coordinators.groups.ensure_topic()
    with_entries = broker("alice READ GROUP g", *(f"user{number} READ TOPIC t{number}*" for number in range(1000)))
    assert least_opcodes(heartbeats(with_entries)) <= 1.05 * least_opcodes(heartbeats(plain))


def test_the_authorizer_is_made_of_the_configuration() -> None:
    made = BrokerInMemory(config={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}, topics={"orders": 1})
    assert made.ask(produce(1, "orders"), 9).responses[0].partition_responses[0].error_code == 0
    made.connection.principal = ALICE
    assert made.ask(produce(1, "orders"), 9).responses[0].partition_responses[0].error_code == 29
