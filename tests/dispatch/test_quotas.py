"""Client quotas: who is held, for how long, and what the answer says. Times are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minibroker.cluster.metadata.client_quotas import CLIENT_ID, USER
from minibroker.dispatch.quotas import CONNECTIONS, CONSUMER_BYTES, MUTATIONS, PRODUCER_BYTES, REQUEST_TIME, QuotaTable
from minibroker.errors import InvalidPartitions, ThrottlingQuotaExceeded
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k37_create_partitions as k37
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.schemas import k78_share_fetch as k78
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.client_quotas import Entity, alter, entry
from tests.support.opcodes import least_opcodes
from tests.support.token_users import connection_of

ANONYMOUS = "ANONYMOUS"
APP: Entity = (("client-id", "app"),)


def limit(broker: BrokerInMemory, key: str, value: float | None, entity: Entity = APP) -> None:
    (_, code, message), *_ = alter(broker, entry(entity, (key, value)))
    assert (code, message) == (0, None)


def held_ms(broker: BrokerInMemory) -> int:
    """How long the connection is to be muted; asking takes it."""
    throttle_ms, broker.connection.throttle_ms = broker.connection.throttle_ms, 0
    return throttle_ms


def has_quotas(broker: BrokerInMemory) -> bool:
    return broker.services.quotas is not None


def produce(broker: BrokerInMemory, size: int, *, client_id: str | None = "app", acks: int = 1) -> int:
    """Produce about so many bytes; throttle_time_ms of the answer."""
    batch = bytes(build_batch([Record(0, broker.clock.now_ms(), b"k", bytes(size))]))
    partition = k00.Partition(index=0, records=batch)
    request = k00.Request(
        transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[k00.Topic(name="orders", partition_data=[partition])]
    )
    answer = broker.ask(request, 12, client_id=client_id)
    if answer is None:
        return -1
    assert answer.responses[0].partition_responses[0].error_code == 0
    throttle_ms: int = answer.throttle_time_ms
    return throttle_ms


def fetch(broker: BrokerInMemory, *, session_id: int = 0, epoch: int = -1, max_bytes: int = 1 << 20) -> k01.Response:
    partitions = [k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)] if session_id == 0 else []
    topics = [k01.Topic(topic="orders", partitions=partitions)] if partitions else []
    request = k01.Request(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, topics=topics, session_id=session_id, session_epoch=epoch)
    response: k01.Response = broker.ask(request, 12, client_id="app")
    return response


def test_usage_is_not_counted_without_quotas() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    assert not has_quotas(broker)
    limit(broker, PRODUCER_BYTES, 10_000)
    assert has_quotas(broker)
    limit(broker, PRODUCER_BYTES, None)
    assert not has_quotas(broker)


def test_a_producer_is_held_until_its_rate_is_the_quota_again() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 10_000)
    first = produce(broker, 104_000)
    assert 400 < first < 430  # 413 on Apache Kafka
    assert held_ms(broker) == first
    broker.clock.advance(first)
    assert 380 < produce(broker, 4_000) < 430  # 411
    assert produce(broker, 200_000, client_id="other") == 0
    broker.clock.advance(20_000)
    assert produce(broker, 4_000) == 0


def test_without_an_answer_the_connection_is_held_nevertheless() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 1_000)
    assert produce(broker, 20_000, acks=0) == -1
    assert held_ms(broker) > 5_000


def test_quotas_outlive_a_restart() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 1_000)
    assert produce(broker.restart(), 20_000) > 5_000


def test_usage_counts_under_a_changed_quota() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 10_000)
    assert produce(broker, 90_000) == 0
    limit(broker, PRODUCER_BYTES, 1_000)
    assert produce(broker, 10) > 70_000


def test_cost_of_a_quota_is_independent_of_their_number() -> None:
    broker = BrokerInMemory()
    values = iter(range(1000, 2000))

    def one_more() -> Callable[[], None]:
        value = next(values)
        return lambda: limit(broker, PRODUCER_BYTES, value, named("one"))

    def cost(known: int) -> int:
        for number in range(known):
            limit(broker, PRODUCER_BYTES, 1000.0 + known, named(f"client-{number}"))
        return least_opcodes(one_more)

    few = cost(3)
    assert cost(300) < few + 300  # less than one instruction for each
    for number in range(300):
        limit(broker, PRODUCER_BYTES, None, named(f"client-{number}"))
    limit(broker, PRODUCER_BYTES, None, named("one"))
    assert not has_quotas(broker)


def named(client_id: str) -> Entity:
    return (("client-id", client_id),)


def test_a_quota_that_is_removed_holds_no_more_and_others_do() -> None:
    broker = BrokerInMemory({"orders": 1})
    limit(broker, PRODUCER_BYTES, 10.0)
    limit(broker, PRODUCER_BYTES, 10.0, named("other"))
    assert produce(broker, 1000) > 0
    limit(broker, PRODUCER_BYTES, None)
    assert produce(broker, 1000) == 0
    assert produce(broker, 1000, client_id="other") > 0


def test_a_consumer_above_its_quota_is_answered_without_records() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    for _ in range(4):
        broker.append("orders", 0, records(1, timestamp=broker.clock.now_ms()))
    size = broker.cluster.partition("orders", 0).log.segments.size
    limit(broker, CONSUMER_BYTES, size // 10 + 20)
    assert fetch(broker).responses[0].partitions[0].records is not None
    refused = fetch(broker)
    assert (refused.error_code, refused.session_id, refused.responses) == (0, 0, [])
    assert refused.throttle_time_ms == held_ms(broker) > 0
    again = fetch(broker)  # what was not given does not count
    assert again.throttle_time_ms == refused.throttle_time_ms
    broker.clock.advance(20_000)
    assert fetch(broker).throttle_time_ms == 0


def test_throttled_answer_does_not_advance_the_session() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(1))
    opened = fetch(broker, epoch=0)
    limit(broker, CONSUMER_BYTES, 10)
    broker.append("orders", 0, records(3))
    refused = fetch(broker, session_id=opened.session_id, epoch=1)
    assert (refused.error_code, refused.session_id, refused.responses) == (0, opened.session_id, [])
    limit(broker, CONSUMER_BYTES, None)
    assert fetch(broker, session_id=opened.session_id, epoch=2).responses[0].partitions[0].records
    limit(broker, CONSUMER_BYTES, 10)
    assert fetch(broker, epoch=0).session_id == 0  # none is opened


def test_a_consumer_gets_no_more_at_once_than_it_may_have_in_the_windows() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    for _ in range(20):
        broker.append("orders", 0, records(20))
    batch_size = broker.cluster.partition("orders", 0).log.segments.size // 20
    limit(broker, CONSUMER_BYTES, int(batch_size * 0.99))
    answer = fetch(broker)
    assert len(answer.responses[0].partitions[0].records or b"") == 9 * batch_size
    assert answer.throttle_time_ms == 0


def test_time_spent_on_requests_is_held_for_one_window_at_the_most() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, REQUEST_TIME, 1e-6)
    answer = broker.ask(k03.Request(topics=None), client_id="app")
    assert answer.throttle_time_ms == held_ms(broker) == 1000
    assert broker.ask(k03.Request(topics=None), client_id="other").throttle_time_ms == 0
    assert produce(broker, 10, acks=0) == -1
    assert held_ms(broker) == 0


@pytest.mark.parametrize("value", [5e-324, float("nan"), float("inf")])
def test_a_quota_that_leaves_nothing_can_be_taken_away_again(value: float) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, REQUEST_TIME, value, ((CLIENT_ID, None),))
    assert broker.ask(k03.Request(topics=None), client_id="app").throttle_time_ms in {0, 1000}
    limit(broker, REQUEST_TIME, None, ((CLIENT_ID, None),))
    assert not has_quotas(broker)


def test_throttle_time_is_capped_at_the_maximum() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 1)
    assert max(produce(broker, 1_000_000) for _ in range(4)) == held_ms(broker) == 2**31 - 1


def create(broker: BrokerInMemory, name: str, count: int, version: int = 7) -> tuple[int, str | None, int]:
    topic = k19.Topic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
    answer = broker.ask(k19.Request(topics=[topic], timeout_ms=1000, validate_only=False), version, client_id="app")
    return answer.topics[0].error_code, answer.topics[0].error_message, answer.throttle_time_ms


def test_topic_mutations_over_quota_are_refused() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, MUTATIONS, 0.5)
    assert create(broker, "first", 6) == (0, None, 0)  # whoever has any left may do as much as he likes
    refused = create(broker, "second", 1)
    assert refused == (ThrottlingQuotaExceeded.code, "The throttling quota has been exceeded.", 1000)
    assert held_ms(broker) == 1000
    assert "second" not in broker.cluster.topics

    grow = k37.Request(topics=[k37.Topic(name="orders", count=3, assignments=None)], timeout_ms=1000, validate_only=False)
    assert broker.ask(grow, 3, client_id="app").results[0].error_code == ThrottlingQuotaExceeded.code
    delete = k20.Request(topics=[k20.Topic(name="orders", topic_id=NIL_UUID)], timeout_ms=1000)
    assert broker.ask(delete, client_id="app").responses[0].error_code == ThrottlingQuotaExceeded.code
    too_few = k37.Request(topics=[k37.Topic(name="first", count=3, assignments=None)], timeout_ms=1000, validate_only=False)
    assert broker.ask(too_few, 3, client_id="app").results[0].error_code == InvalidPartitions.code  # what is wrong is not counted

    broker.clock.advance(1000)
    assert create(broker, "second", 1) == (0, None, 0)


def test_old_clients_are_throttled_after_mutations() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, MUTATIONS, 0.5)
    assert create(broker, "first", 6, version=5) == (0, None, 1000)
    assert create(broker, "second", 6, version=5) == (0, None, 13_000)
    grow = k37.Request(topics=[k37.Topic(name="orders", count=2, assignments=None)], timeout_ms=1000, validate_only=False)
    grown = broker.ask(grow, 2, client_id="app")
    assert (grown.results[0].error_code, grown.throttle_time_ms) == (0, 15_000)
    deleted = broker.ask(k20.Request(topic_names=["orders"], timeout_ms=1000), 4, client_id="app")
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (0, 19_000)


@pytest.mark.parametrize(
    ("entity", "sharing"),
    [
        ({USER: ANONYMOUS, CLIENT_ID: "app"}, (ANONYMOUS, "app")),
        ({USER: ANONYMOUS, CLIENT_ID: None}, (ANONYMOUS, "app")),
        ({USER: ANONYMOUS}, (ANONYMOUS, None)),
        ({USER: None, CLIENT_ID: "app"}, (ANONYMOUS, "app")),
        ({USER: None, CLIENT_ID: None}, (ANONYMOUS, "app")),
        ({USER: None}, (ANONYMOUS, None)),
        ({CLIENT_ID: "app"}, ("", "app")),
        ({CLIENT_ID: None}, ("", "app")),
    ],
)
def test_the_most_specific_quota_holds(entity: dict[str, str | None], sharing: tuple[str, str | None]) -> None:
    """In the order above (ClientQuotaManager); each is tried with all those below it."""
    order: list[dict[str, str | None]] = [
        {USER: ANONYMOUS, CLIENT_ID: "app"}, {USER: ANONYMOUS, CLIENT_ID: None}, {USER: ANONYMOUS}, {USER: None, CLIENT_ID: "app"},
        {USER: None, CLIENT_ID: None}, {USER: None}, {CLIENT_ID: "app"}, {CLIENT_ID: None},
    ]  # fmt: skip
    limits = QuotaTable()
    for value, each in enumerate(order):
        if value >= order.index(entity):
            limits.set(frozenset(each.items()), value)
    limits.set(frozenset({USER: "alice", CLIENT_ID: "app"}.items()), 99)
    assert limits.of((ANONYMOUS, "app")) == (sharing, order.index(entity))


def of_user(broker: BrokerInMemory, user: str) -> BrokerInMemory:
    """The broker, whose next requests come from this user."""
    broker.connection = connection_of(user)
    return broker


@pytest.mark.parametrize("name", ["alice", "CN=alice,O=Mini\\, Inc", "a b%2C/:*", "\u043a\u043b\u044e\u0447"])
def test_a_quota_of_a_user_holds_for_the_principal_of_that_name(name: str) -> None:
    """Quotas have the name as it is; Apache Kafka encodes it in the names of metrics only (Sanitizer)."""
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 1_000, (("user", name),))
    assert produce(of_user(broker, "bob"), 20_000) == 0
    assert produce(broker, 20_000) == 0
    assert produce(of_user(broker, name), 20_000) > 5_000
    assert produce(of_user(broker, name), 1, client_id="other") > 5_000  # all connections share the quota
    assert produce(of_user(broker, "bob"), 1) == 0


def test_the_default_of_users_holds_for_each_of_them() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 1_000, (("user", None),))
    limit(broker, PRODUCER_BYTES, 1e9, (("user", "alice"), ("client-id", "app")))
    assert produce(of_user(broker, "bob"), 20_000) > 5_000
    assert produce(of_user(broker, "carol"), 500) == 0
    assert produce(of_user(broker, "alice"), 20_000) == 0
    assert produce(of_user(broker, "alice"), 20_000, client_id="other") > 5_000


def test_mutation_quota_of_a_user_does_not_affect_others() -> None:
    broker = BrokerInMemory()
    limit(broker, MUTATIONS, 0.5, (("user", "alice"),))
    assert create(of_user(broker, "alice"), "first", 6) == (0, None, 0)
    assert create(of_user(broker, "alice"), "second", 1)[0] == ThrottlingQuotaExceeded.code
    assert create(of_user(broker, "bob"), "second", 6) == (0, None, 0)


def test_a_user_fetches_within_the_quota() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(2000))
    limit(broker, CONSUMER_BYTES, 10, (("user", "alice"), ("client-id", None)))
    answers = [fetch(of_user(broker, user)) for user in ("alice", "alice", "bob")]
    assert [answer.throttle_time_ms > 0 for answer in answers] == [True, True, False]
    assert [bool(answer.responses and answer.responses[0].partitions[0].records) for answer in answers] == [False, False, True]


@pytest.mark.parametrize("client_id", [None, ""])
def test_a_client_without_a_name_is_of_no_client_id(client_id: str | None) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    limit(broker, PRODUCER_BYTES, 100, (("client-id", None),))
    assert produce(broker, 4_000, client_id=client_id) == 0
    assert produce(broker, 4_000, client_id="named") > 0
    limit(broker, PRODUCER_BYTES, 100, (("user", None),))
    assert produce(broker, 4_000, client_id=client_id) > 0


def test_connection_rate_of_an_address_is_limited() -> None:
    broker = BrokerInMemory()
    limit(broker, CONNECTIONS, 2, (("ip", "10.0.0.7"),))
    quotas = broker.services.quotas
    assert quotas is not None
    assert [quotas.connection_throttle_ms("10.0.0.7") for _ in range(22)] == [0] * 20 + [500, 500]  # of Kafka: 510
    assert [quotas.connection_throttle_ms("10.0.0.8") for _ in range(30)] == [0] * 30
    broker.clock.advance(500)
    assert [quotas.connection_throttle_ms("10.0.0.7") for _ in range(2)] == [0, 500]
    limit(broker, CONNECTIONS, 1, (("ip", None),))
    again = broker.services.quotas
    assert again is not None
    assert [again.connection_throttle_ms("10.0.0.8") for _ in range(11)] == [0] * 10 + [1000]


def test_share_fetch_is_throttled_after_its_records() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.cluster.configs.alter_group("readers", {"share.auto.offset.reset": "earliest"})
    broker.append("orders", 0, records(50))
    member = str(broker.cluster.topic("orders").topic_id)[:22]
    broker.ask(k10.Request(key_type=0, coordinator_keys=["readers"]))
    join = k76.Request(group_id="readers", member_id=member, member_epoch=0, rack_id=None, subscribed_topic_names=["orders"])
    assert broker.ask(join).error_code == 0
    limit(broker, CONSUMER_BYTES, 10)
    topic = k78.Topic(
        topic_id=broker.cluster.topic("orders").topic_id, partitions=[k78.Partition(partition_index=0, acknowledgement_batches=[])]
    )
    request = k78.Request(
        group_id="readers", member_id=member, share_session_epoch=0, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, max_records=500,
        batch_size=500, topics=[topic], forgotten_topics_data=[],
    )  # fmt: skip
    answer = broker.ask(request, client_id="app")
    assert answer.responses[0].partitions[0].records
    assert answer.throttle_time_ms == held_ms(broker) > 10_000
