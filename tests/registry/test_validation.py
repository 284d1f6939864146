"""Schema ids of produced records, checked by the broker for topics with `confluent.value.schema.validation`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from minibroker.dispatch import registry as handlers
from minibroker.errors import CorruptMessage, InvalidConfig, InvalidRecord, WireError
from minibroker.records.batch import HEADER_SIZE, RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.checksum import crc32c
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.records.steps import finished
from minibroker.registry.record_ids import LONG_RECORD, read_ids
from minibroker.registry.registry import Registry
from minibroker.registry.schema_files import SchemaFile, register
from minibroker.registry.validation import SchemaValidation, record_name, rules_of
from minibroker.schemas import k00_produce
from minibroker.testing import BrokerThread
from minibroker.wire.schema import replace
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.confluent import Producer

ORDER = '{"type":"record","name":"Order","namespace":"com.example","fields":[]}'
VALUE = {"confluent.value.schema.validation": "true"}
KEY = {"confluent.key.schema.validation": "true"}
NOW_MS = BrokerInMemory().clock.now_ms()


def with_id(schema_id: int, payload: bytes = b"payload") -> bytes:
    return b"\0" + schema_id.to_bytes(4) + payload


def batch_of(*values: bytes | None, compression: Compression = Compression.NONE, **fields: Any) -> bytes:
    rows = [Record(number, NOW_MS, fields.get("key"), value, fields.get("headers", ())) for number, value in enumerate(values)]
    return bytes(build_batch(rows, compression=compression))


def produce_to(topics: dict[str, list[bytes]], acks: int = -1) -> k00_produce.Request:
    found = []
    for name, batches in topics.items():
        partitions = [k00_produce.Partition(index=index, records=data) for index, data in enumerate(batches)]
        found.append(k00_produce.Topic(name=name, partition_data=partitions))
    return k00_produce.Request(acks=acks, timeout_ms=1000, topic_data=found)


@pytest.fixture
async def broker() -> BrokerInMemory:
    """A broker whose registry has three schemas."""
    found: list[Registry] = []
    broker = BrokerInMemory()
    broker.services.registry = SchemaValidation(lambda _: found[0]).make_registry()
    broker.services.config.has_schema_registry = True
    found.append(Registry(lambda: broker.services))
    schemas = {"orders-value": '"string"', "com.example.Order": ORDER, "orders-com.example.Order": ORDER, "x-key": '"int"'}
    for subject, text in schemas.items():
        await register(found[0], SchemaFile(subject, "AVRO", text))
    return broker


def create(broker: BrokerInMemory, name: str, configs: dict[str, str], partitions: int = 1) -> None:
    broker.cluster.create_topic(name, partition_count=partitions, configs=dict(configs))


def errors_of(broker: BrokerInMemory, name: str, *batches: bytes, version: int = 12) -> list[tuple[int, list[tuple[int, str]]]]:
    """The error code and the refused records of each batch; each goes to a partition of its own."""
    answer = broker.ask(produce_to({name: [*batches]}), version)
    results = sorted(answer.responses[0].partition_responses, key=lambda each: each.index)
    return [(each.error_code, [(one.batch_index, one.batch_index_error_message) for one in each.record_errors]) for each in results]


@pytest.mark.parametrize("compression", [*Compression])
def test_records_of_another_subject_are_refused_one_by_one(broker: BrokerInMemory, compression: Compression) -> None:
    create(broker, "orders", VALUE, partitions=2)
    good = batch_of(with_id(1), None, with_id(1, b""), compression=compression)
    bad = batch_of(with_id(1), with_id(2), b"raw", with_id(99), b"", compression=compression)
    passed, refused = errors_of(broker, "orders", good, bad)
    assert passed == (0, [])
    assert refused[0] == InvalidRecord.code
    assert [number for number, _ in refused[1]] == [1, 2, 3, 4]
    prefix = f"Log record DefaultRecord(offset=1, timestamp={NOW_MS}, key=0 bytes, value=12 bytes) is rejected by the record interceptor "
    name = "io.confluent.kafka.schemaregistry.validator.RecordSchemaValidator: "
    assert refused[1][0][1] == f"{prefix}{name}schema id 2 does not belong to the subject orders-value"
    reasons = [message.partition(name)[2] for _, message in refused[1][1:]]
    missing = "the value has no schema id"
    assert reasons == [missing, "there is no schema with the id 99, which the value names", missing]
    assert [log.log_end_offset for log in (each.log for each in broker.cluster.topics["orders"].partitions)] == [3, 0]


def test_each_strategy_has_its_subject(broker: BrokerInMemory) -> None:
    strategies = {
        "TopicNameStrategy": [0, 87, 87],
        "RecordNameStrategy": [87, 0, 87],
        "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy": [87, 0, 87],
    }
    for strategy, expected in strategies.items():
        create(broker, "orders", VALUE | {"confluent.value.subject.name.strategy": strategy}, partitions=3)
        found = errors_of(broker, "orders", *(batch_of(with_id(each)) for each in (1, 2, 3)))
        assert [code for code, _ in found] == expected, strategy
        broker.cluster.delete_topic("orders")
    create(broker, "prices", VALUE | {"confluent.value.subject.name.strategy": "TopicRecordNameStrategy"})
    ((code, refused),) = errors_of(broker, "prices", batch_of(with_id(2)))
    assert code == 87
    assert refused[0][1].endswith("schema id 2 does not belong to the subject prices-com.example.Order")


def test_keys_and_values_are_checked_on_their_own(broker: BrokerInMemory) -> None:
    create(broker, "x", KEY)
    assert errors_of(broker, "x", batch_of(b"raw", key=with_id(3))) == [(0, [])]
    assert errors_of(broker, "x", batch_of(b"raw", key=None)) == [(0, [])]
    ((code, refused),) = errors_of(broker, "x", batch_of(with_id(1), key=b"raw"))
    assert (code, refused[0][1].rpartition(": ")[2]) == (87, "the key has no schema id")
    create(broker, "off", {"confluent.value.schema.validation": "false"})
    assert errors_of(broker, "off", batch_of(b"raw")) == [(0, [])]


async def test_guids_in_headers_and_payloads_are_ids(broker: BrokerInMemory) -> None:
    create(broker, "orders", VALUE, partitions=4)
    guid = Registry(lambda: broker.services)
    digest = UUID((await guid.get_by_id(1, None, form="", with_max_id=False))["guid"]).bytes
    other = UUID(int=7).bytes
    batches = (
        batch_of(b"payload", headers=(("a", None), ("__value_schema_id", b"\1" + digest))),
        batch_of(b"\1" + digest + b"payload"),
        batch_of(with_id(1), headers=(("__value_schema_id", b"\1" + other),)),
        batch_of(with_id(1), headers=(("__value_schema_id", b"?"),)),
    )
    assert [code for code, _ in errors_of(broker, "orders", *batches)] == [0, 0, 87, 87]


def test_other_topics_of_the_request_are_served(broker: BrokerInMemory) -> None:
    create(broker, "orders", VALUE)
    create(broker, "plain", {})
    answer = broker.ask(produce_to({"plain": [batch_of(b"raw")], "orders": [batch_of(b"raw")], "nowhere": [batch_of(b"raw")]}), 12)
    codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {"plain": 0, "orders": 87, "nowhere": 3}
    assert broker.cluster.topics["plain"].partitions[0].log.log_end_offset == 1
    with pytest.raises(WireError, match=r"Produce with acks=0 to 'orders'-0 failed: One or more records have been rejected"):
        broker.ask(produce_to({"plain": [batch_of(b"raw")], "orders": [batch_of(b"raw")]}, acks=0), 12)
    assert broker.cluster.topics["plain"].partitions[0].log.log_end_offset == 2
    named = produce_to({"": [batch_of(b"raw")]})
    by_id = replace(named, topic_data=[replace(named.topic_data[0], topic_id=broker.cluster.topics["orders"].topic_id)])
    assert broker.ask(by_id, 13).responses[0].partition_responses[0].error_code == 87


def test_topics_without_validation_do_not_touch_the_registry(broker: BrokerInMemory) -> None:
    validation = SchemaValidation(lambda _: pytest.fail("the registry is not read"))
    assert validation.make_registry().get(1) is handlers.load().get(1)
    broker.services.registry = validation.make_registry()
    create(broker, "plain", {"retention.ms": "-1"})
    assert errors_of(broker, "plain", batch_of(b"raw")) == [(0, [])]


def test_long_batches_are_checked_in_slices(broker: BrokerInMemory) -> None:
    create(broker, "orders", VALUE | {"max.message.bytes": "100000000"}, partitions=2)
    many = [with_id(1)] * 30_000
    good = batch_of(*many, compression=Compression.LZ4)
    found = errors_of(broker, "orders", good, batch_of(*many[:-1], b"raw", compression=Compression.GZIP))
    assert [code for code, _ in found] == [0, 87]
    assert [number for number, _ in found[1][1]] == [29_999]


def test_a_batch_whose_fields_lie_is_refused(broker: BrokerInMemory) -> None:
    create(broker, "orders", VALUE)
    data = bytearray(batch_of(*[with_id(1)] * 40))
    data[HEADER_SIZE + 4] = 0x7E  # the length of the first key
    assert errors_of(broker, "orders", bytes(data)) == [(CorruptMessage.code, [])]
    data[17:21] = crc32c(data[21:]).to_bytes(4)
    assert errors_of(broker, "orders", bytes(data)) == [(InvalidRecord.code, [])]
    for position in range(HEADER_SIZE, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        with suppress(InvalidRecord):
            finished(read_ids(RecordBatch(memoryview(damaged)), lambda *_: None))


def test_ids_of_long_records_are_read_without_the_rest() -> None:
    long = with_id(7, bytes(3 * LONG_RECORD))
    for compression in (Compression.NONE, Compression.GZIP):
        found: list[tuple[Any, ...]] = []
        batch = RecordBatch(memoryview(batch_of(with_id(5), long, with_id(6), b"x" * 700_000, None, compression=compression)))
        finished(read_ids(batch, lambda *record, found=found: found.append(record)))
        assert [value for _, _, _, _, value in found] == [5, 7, 6, None, None]
        assert [sizes for _, _, sizes, _, _ in found] == [(-1, 12), (-1, len(long)), (-1, 12), (-1, 700_000), (-1, -1)]


def test_the_reason_is_given_for_a_key_that_is_too_long() -> None:
    batch = RecordBatch(memoryview(batch_of(with_id(5), key=bytes(2 * LONG_RECORD))))
    with pytest.raises(InvalidRecord, match="record 0 has no value within its first 1048576 bytes"):
        finished(read_ids(batch, lambda *_: None))


@pytest.mark.parametrize(
    ("schema_type", "text", "name"),
    [
        ("AVRO", ORDER, "com.example.Order"),
        ("AVRO", '{"type":"enum","name":"a.B","symbols":["x"]}', "a.B"),
        ("AVRO", '"string"', None),
        ("JSON", '{"title":"Person"}', "Person"),
        ("JSON", '{"type":"object"}', None),
        ("JSON", '{"title":["Person"],"namespace":"a"}', None),
        ("JSON", "{", None),
        ("AVRO", '{"name":5}', None),
        ("PROTOBUF", 'syntax = "proto3";\npackage shop.v1;\n\nmessage Order {\n  message Item {\n  }\n}\n', "shop.v1.Order"),
        ("PROTOBUF", 'syntax = "proto3";\n\nmessage Order {\n}\n', "Order"),
    ],
)
def test_names_of_records(schema_type: str, text: str, name: str | None) -> None:
    assert record_name(schema_type, text) == name


def test_configs_are_unknown_without_a_registry() -> None:
    broker = BrokerInMemory()
    with pytest.raises(
        InvalidConfig, match=r"Unknown topic config name: confluent\.value\.schema\.validation\. It needs a schema registry"
    ):
        create(broker, "orders", VALUE)
    broker.services.config.has_schema_registry = True
    with pytest.raises(InvalidConfig, match=r"confluent\.value\.subject\.name\.strategy"):
        create(broker, "orders", {"confluent.value.subject.name.strategy": "MyStrategy"})
    assert rules_of({}) is None


def test_in_the_test_kit_a_producer_gets_the_error() -> None:
    with BrokerThread() as broker:
        schema_id = broker.registry.register("orders-value", '"string"')
        broker.create_topic("orders", confluent_value_schema_validation=True)
        failures: list[str | None] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in (with_id(schema_id), b"raw", None):
            producer.produce("orders", value, on_delivery=lambda error, _: failures.append(error and error.name()))
            producer.flush(30)
        assert failures == [None, "INVALID_RECORD", None]
        with broker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER").once() as fault:
            producer.produce("orders", with_id(schema_id))
            assert producer.flush(30) == 0
            assert fault.hits == 1
        broker.stop()
        broker.start()
        assert broker.topics() == ["_schemas", "orders"]
        producer.produce("orders", b"raw", on_delivery=lambda error, _: failures.append(error and error.name()))
        producer.flush(30)
        assert failures[-1] == "INVALID_RECORD"


def test_other_configs_of_a_topic_can_be_changed_without_the_registry(broker: BrokerInMemory) -> None:
    create(broker, "orders", VALUE)
    create(broker, "plain", {})
    broker.services.config.has_schema_registry = False
    configs = broker.cluster.configs
    configs.alter_topic("orders", VALUE | {"retention.ms": "1000"}, validate_only=False)
    assert broker.cluster.topics["orders"].config == VALUE | {"retention.ms": "1000"}
    for topic, refused in (("orders", VALUE | KEY), ("plain", VALUE)):
        with pytest.raises(InvalidConfig, match="It needs a schema registry"):
            configs.alter_topic(topic, refused, validate_only=False)
