"""What the coordinators could not load is found, and nothing of what Apache Kafka 4.3.1 wrote."""

from __future__ import annotations

import pickle

import pytest

from minibroker.coordinator.record_checking import check_offset, check_transaction, record_check_of
from minibroker.records.record import Record
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from minibroker.schemas.internal.offset_records import OffsetCommitKey, OffsetCommitValue
from minibroker.schemas.internal.transaction_records import TransactionLogKey, TransactionLogValue
from minibroker.storage.record_frame import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.storage.test_record_frame import segments, stored

PARTITIONS = {
    "coordinators_kafka_4.3.1": 3,
    "groups_kafka_4.3.1": 1,
    "share_state_kafka_4.3.1": 1,
    "streams_kafka_4.3.1": 1,
}  #: of the topics that the golden segments are of
ID = "writer"  #: partition 7 of 50


@pytest.mark.parametrize("segment", segments())
def test_kafka_records_are_valid(segment: str) -> None:
    topic, _, index = segment.partition("/")[0].rpartition("-")
    count = PARTITIONS[segment.rpartition(" of ")[2]]
    check = record_check_of(topic, int(index), count)
    elsewhere = record_check_of(topic, int(index) + 1, count)
    unknown = record_check_of(topic, int(index) + 1, None)
    assert check is not None
    assert elsewhere is not None
    assert unknown is not None
    records = [each.record for each in stored(segment)]
    assert len(records) > 5
    assert [problem for record in records if (problem := check(record))] == []
    assert [problem for record in records if (problem := unknown(record))] == []
    for record in records:
        assert f"belongs in partition {index} of {count}" in str(elsewhere(record))
        assert pickle.loads(pickle.dumps(check))(record) is None  # noqa: S301  our own bytes


def test_user_topics_are_not_checked() -> None:
    assert record_check_of("orders", 0, 3) is None


def transaction(**changes: int) -> Record:
    fields = {"producer_id": 1, "producer_epoch": 0, "transaction_timeout_ms": 1, "transaction_status": 0} | changes
    value = TransactionLogValue(
        **fields, transaction_partitions=None, transaction_last_update_timestamp_ms=1, transaction_start_timestamp_ms=-1
    )
    key = TransactionLogKey(transactional_id=ID)
    return Record(0, 1, TRANSACTION_STATE.encode_key(key), TRANSACTION_STATE.encode_value(key, value, 1))


def test_invalid_transaction_states_are_reported() -> None:
    good = transaction()
    assert check_transaction(7, 50, good) is None
    assert check_transaction(7, 50, good._replace(value=None)) is None
    assert check_transaction(7, 50, good._replace(key=b"\0\x63")) is None  # a type of a later version
    assert check_transaction(8, 50, good) == "transactional id writer belongs in partition 7 of 50, where it is looked for"
    for wrong in (
        good._replace(key=None),
        good._replace(key=b"\0"),
        good._replace(value=b""),
        good._replace(value=(good.value or b"")[:-1]),
        good._replace(value=(good.value or b"") + b"\0"),
        transaction(transaction_status=9),
        transaction(transaction_status=1),  # ongoing, and without partitions
    ):
        assert str(check_transaction(7, 50, wrong)).startswith("no state of a transaction: "), wrong


def test_invalid_group_records_are_reported() -> None:
    key = OffsetCommitKey(group=ID, topic="orders", partition=0)
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    record = Record(0, 1, CONSUMER_OFFSETS.encode_key(key), CONSUMER_OFFSETS.encode_value(key, value, 4))
    assert check_offset(7, 50, record) is None
    assert check_offset(8, 50, record) == "group writer belongs in partition 7 of 50, where it is looked for"
    assert str(check_offset(7, 50, record._replace(value=b"\0\4"))).startswith("no record of a group: ")
    new_key = ConsumerGroupMetadataKey(group_id=ID)
    new_value = CONSUMER_OFFSETS.encode_value(new_key, ConsumerGroupMetadataValue(epoch=1), 0)
    new = Record(0, 1, CONSUMER_OFFSETS.encode_key(new_key), new_value)
    assert check_offset(7, 50, new) is None
    assert "belongs in partition 7 of 50" in str(check_offset(0, 50, new))


def test_empty_group_name_is_valid() -> None:
    key = OffsetCommitKey(group="", topic="orders", partition=0)
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    record = Record(0, 1, CONSUMER_OFFSETS.encode_key(key), CONSUMER_OFFSETS.encode_value(key, value, 4))
    assert check_offset(0, 50, record) is None
    assert check_offset(1, 50, record) == "group '' belongs in partition 0 of 50, where it is looked for"
    assert check_offset(0, 50, record._replace(value=None)) is None
