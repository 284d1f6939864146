"""What /metrics says is what clients did."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from minibroker.schemas import k00_produce
from minibroker.schemas.internal.setting_records import ClientQuotaRecord, QuotaEntity
from minibroker.testing import Broker
from tests.metrics.conftest import Scraped

STRANGE = 'a"b\\c\nd{e="f"} # é'


async def produce(broker: Broker, topic: str, count: int, *, transactional_id: str | None = None, partition: int = 0) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id)
    async with producer:
        for _ in range(count):
            if transactional_id is None:
                await producer.send_and_wait(topic, b"x" * 100, partition=partition)
            else:
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"x" * 100, partition=partition)


async def commit(broker: Broker, group: str, topic: str, offset: int, partition: int = 0) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    await consumer.commit({place: offset})
    await consumer.stop()


async def test_an_empty_broker_has_every_family(scraped: Scraped) -> None:
    text = await scraped.scraper.text()
    announced = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    helped = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")}
    assert announced == helped
    assert {"kafka_consumergroup_lag", "kafka_server_fetch_byte_rate", "kafka_network_requestmetrics_localtimems"} <= announced
    assert await scraped("kafka_broker_info") == 1
    assert await scraped("kafka_network_requestmetrics_requestspersec", request="Produce") == 0


async def test_records_bytes_and_offsets(broker: Broker, scraped: Scraped) -> None:
    await scraped.all()  # what came before a scrape does not count twice
    await produce(broker, "orders", 5)
    await produce(broker, "orders", 3, partition=1)
    log = broker._hosted.broker.cluster.partition("orders", 0).log
    found = await scraped.all()
    orders = frozenset({("topic", "orders")})
    assert found["kafka_server_brokertopicmetrics_messagesin_total"][orders] == 8
    assert found["kafka_server_brokertopicmetrics_messagesinpersec"][orders] == 8
    both = sum(broker._hosted.broker.cluster.partition("orders", index).log.segments.size for index in (0, 1))
    assert found["kafka_server_brokertopicmetrics_bytesin_total"][orders] == both
    assert found["kafka_server_brokertopicmetrics_totalproducerequests_total"][orders] == 8
    assert (
        found["redpanda_kafka_request_bytes_total"][
            orders - orders | {("redpanda_namespace", "kafka"), ("redpanda_request", "produce"), ("redpanda_topic", "orders")}
        ]
        == both
    )
    first = orders | {("partition", "0")}
    assert found["kafka_topic_partition_current_offset"][first] == 5
    assert found["kafka_log_log_logendoffset"][first] == 5
    assert found["kafka_log_log_size"][first] == log.segments.size


async def test_bytes_that_retention_deleted_were_appended(broker: Broker, scraped: Scraped) -> None:
    cluster = broker._hosted.broker.cluster
    cluster.configs.alter_topic("orders", {"segment.bytes": "1048576", "segment.ms": "1"})
    log = cluster.partition("orders", 0).log
    await produce(broker, "orders", 4)
    size = log.segments.size
    log.roll()
    await produce(broker, "orders", 1)
    log.advance_log_start_offset(4)
    assert log.segments.size < size
    assert await scraped("kafka_server_brokertopicmetrics_bytesin_total", topic="orders") == size + log.segments.size


async def test_what_consumers_fetched(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 5)
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    async with consumer:
        for _ in range(5):
            await consumer.getone()
        size = broker._hosted.broker.cluster.partition("orders", 0).log.segments.size
        assert await scraped("kafka_server_brokertopicmetrics_bytesout_total", topic="orders") == size
        software = await scraped.all()
        assert sum(software["minibroker_connections"].values()) == len(broker._hosted.broker.connections) > 0


async def test_lag_in_records_and_in_time(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 5)
    await commit(broker, "readers", "orders", 2)
    assert await scraped("kafka_consumergroup_current_offset", consumergroup="readers") == 2
    assert await scraped("kafka_consumergroup_lag", consumergroup="readers", topic="orders", partition=0) == 3
    assert await scraped("kafka_consumergroup_lag_sum", consumergroup="readers") == 3
    assert await scraped("kminion_kafka_consumer_group_topic_lag", group_id="readers") == 3
    assert await scraped("burrow_kafka_consumer_lag_total", consumer_group="readers") == 3
    await broker.advance(seconds=60)
    seconds = await scraped("kafka_consumergroup_group_lag_seconds", group="readers")
    assert seconds is not None
    assert 60 <= seconds < 100
    assert await scraped("kafka_consumergroup_group_max_lag_seconds", group="readers") == pytest.approx(seconds, abs=30)
    await commit(broker, "readers", "orders", 5)
    assert await scraped("kafka_consumergroup_group_lag_seconds", group="readers") == 0


async def test_the_lag_without_transaction_markers(broker: Broker, scraped: Scraped) -> None:
    """A consumer that has read everything is never at the high watermark: the last marker is after its last record."""
    await produce(broker, "orders", 3, transactional_id="payments")
    await commit(broker, "readers", "orders", 5)  # the third record is at 4, its marker at 5
    await commit(broker, "sleepers", "orders", 0)
    assert await scraped("kafka_consumergroup_lag", consumergroup="readers") == 1
    assert await scraped("minibroker_group_lag_records", consumergroup="readers") == 0
    assert await scraped("kafka_consumergroup_lag", consumergroup="sleepers") == 6
    assert await scraped("minibroker_group_lag_records", consumergroup="sleepers") == 3


async def test_markers_from_before_the_start_are_not_known(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 2, transactional_id="payments")
    await commit(broker, "readers", "orders", 0)
    await broker.stop()
    await broker.start()
    lag = None
    for _ in range(6000):
        lag = await scraped("kafka_consumergroup_lag", consumergroup="readers")
        if lag is not None:
            break
        await asyncio.sleep(0.01)  # the groups are being read
    assert lag == 4
    assert await scraped("minibroker_group_lag_records", consumergroup="readers") is None


async def test_series_go_with_their_topic_and_group(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 3)
    await commit(broker, "readers", "orders", 1)
    total = (await scraped.all())["kafka_server_brokertopicmetrics_messagesin_total"][frozenset()]
    await broker.delete_topic("orders")
    text = await scraped.scraper.text()
    assert 'topic="orders"' not in text
    assert (await scraped.all())["kafka_server_brokertopicmetrics_messagesin_total"][frozenset()] >= total  # a counter never falls
    assert await scraped("kafka_consumergroup_members", consumergroup="readers") in {0, None}
    assert all("orders" not in str(key) for key in broker._hosted.meter.topics)


async def test_strange_names_are_escaped(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 2)
    await commit(broker, STRANGE, "orders", 1)
    for name, label in (("kafka_consumergroup_lag", "consumergroup"), ("minibroker_group_state", "group")):
        assert await scraped(name, **{label: STRANGE}) == 1


async def test_errors_and_requests(broker: Broker, scraped: Scraped) -> None:
    await broker.faults.inject("Produce", "NOT_ENOUGH_REPLICAS", topic="orders").once()
    await produce(broker, "orders", 1)
    assert await scraped("kafka_network_requestmetrics_errorspersec", request="Produce", error="NOT_ENOUGH_REPLICAS") == 1
    assert await scraped("kafka_server_brokertopicmetrics_failedproducerequests_total", topic="orders") == 1
    assert await scraped("minibroker_request_errors_total", api="Produce") == 1
    assert await scraped("minibroker_request_seconds_count", api="Produce") == 2
    assert await scraped("kafka_network_requestmetrics_totaltimems_count", request="Produce") == 2


async def test_produce_without_an_answer_counts(broker: Broker, scraped: Scraped) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks=0, enable_idempotence=False) as producer:
        for _ in range(3):
            await producer.send_and_wait("orders", b"x", partition=0)
        await producer.client.fetch_all_metadata()  # after the three
        assert await scraped("kafka_server_brokertopicmetrics_totalproducerequests_total", topic="orders") == 3
        assert await scraped("minibroker_request_seconds_count", api="Produce") == 3


async def test_time_that_a_fetch_waits_is_remote(broker: Broker, scraped: Scraped) -> None:
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, fetch_max_wait_ms=60, auto_offset_reset="earliest")
    async with consumer:
        assert await consumer.getmany(timeout_ms=300) == {}
        await produce(broker, "orders", 1)
        await consumer.getone()
    remote = await scraped("kafka_network_requestmetrics_remotetimems_sum", request="Fetch")
    local = await scraped("kafka_network_requestmetrics_localtimems_sum", request="Fetch")
    assert remote is not None
    assert local is not None
    assert remote > 60 > local


async def test_the_high_watermark_is_held(broker: Broker, scraped: Scraped) -> None:
    async with broker.hold_high_watermark("orders", 0):
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks=1, enable_idempotence=False)
        async with producer:
            await producer.send_and_wait("orders", b"x", partition=0)
        assert await scraped("kafka_topic_partition_current_offset", topic="orders", partition=0) == 0
        assert await scraped("kafka_log_log_logendoffset", topic="orders", partition=0) == 1


async def test_in_sync_replicas_of_several_brokers() -> None:
    async with Broker(topics={"orders": 3}, brokers=3) as broker:
        scraped = Scraped(broker)
        assert await scraped("kafka_brokers") == 3
        assert await scraped("kafka_server_replicamanager_underreplicatedpartitions") == 0
        await broker.nodes.stop(2)
        assert await scraped("kafka_brokers") == 2
        assert await scraped("kafka_server_replicamanager_underreplicatedpartitions") == 3
        assert await scraped("kafka_topic_partition_in_sync_replica", topic="orders", partition=0) == 2
        assert await scraped("kafka_server_replicamanager_isrshrinks_total") == 3
        await broker.nodes.start(2)
        assert await scraped("kafka_server_replicamanager_isrexpands_total") == 3


async def test_series_name_the_broker_that_they_belong_to() -> None:
    async with Broker(topics={"orders": 3}, brokers=3) as broker:
        scraped = Scraped(broker)
        before = [await scraped("minibroker_connections_accepted_total", broker_id=number) for number in (1, 2, 3)]
        await produce(broker, "orders", 2, partition=1)
        found = await scraped.all()
        leader_id = int(found["kafka_topic_partition_leader"][frozenset({("topic", "orders"), ("partition", "1")})])
        produced = {
            dict(series)["broker_id"]: value for series, value in found["minibroker_requests_total"].items() if ("api", "Produce") in series
        }
        assert produced == {str(leader_id): 2}
        for number in (1, 2, 3):
            assert await scraped("minibroker_broker_partitions_led", broker_id=number) == 1
            assert await scraped("minibroker_broker_replicas", broker_id=number) == 3
        after = [await scraped("minibroker_connections_accepted_total", broker_id=number) for number in (1, 2, 3)]
        assert after[leader_id - 1] != before[leader_id - 1]
        await broker.nodes.stop(2)
        assert await scraped("minibroker_broker_partitions_led", broker_id=2) == 0
        assert await scraped("minibroker_broker_replicas", broker_id=2) == 3


async def test_reset_starts_again_from_0(broker: Broker, scraped: Scraped) -> None:
    await produce(broker, "orders", 2)
    await broker.reset()
    assert await scraped("kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 0
    assert await scraped("minibroker_request_seconds_count", api="Produce") == 0


async def test_quotas_show_rates(broker: Broker, scraped: Scraped) -> None:
    assert (await scraped.all()).get("kafka_server_produce_byte_rate", {}) == {}
    record = ClientQuotaRecord(
        entity=[QuotaEntity(entity_type="client-id", entity_name="slow")], key="producer_byte_rate", value=1e6, remove=False
    )
    broker._hosted.broker.cluster.write_quotas_and_credentials([record])
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="slow") as producer:
        await producer.send_and_wait("orders", b"x" * 1000)
    rate = await scraped("kafka_server_produce_byte_rate", client_id="slow")
    assert rate
    assert await scraped("kafka_server_produce_throttle_time", client_id="slow") == 0


async def test_unknown_topics_are_not_remembered(broker: Broker, scraped: Scraped) -> None:
    """A client may name any number of them."""
    await produce(broker, "orders", 1)
    dispatcher = broker._hosted._dispatcher
    assert dispatcher is not None
    plan = dispatcher._plans[7]
    results = [k00_produce.PartitionResult(index=0, error_code=3, base_offset=-1)]
    for number in range(10):
        plan.encode(k00_produce.Response(responses=[k00_produce.TopicResult(name=f"unknown-{number}", partition_responses=results)]), 0)
    assert len(broker._hosted.meter.topics) == 1
    assert await scraped("kafka_network_requestmetrics_errorspersec", request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 10
    assert await scraped("kafka_network_requestmetrics_errorspersec", request="Produce", error="NONE") == 1
