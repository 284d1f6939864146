"""Our bytes against those of Kafka's own classes: committed ones for every record of the metadata log and for the versions
that Kafka 4 dropped, live ones for everything that Kafka 4 knows."""

from __future__ import annotations

import pytest

from minibroker.schemas.internal.metadata_records import BY_ID
from tests.schemas.codecs import CODECS, Codec
from tests.schemas.declared import messages
from tests.schemas.kafka_itself import Sample, kafka_json, old_messages, read_records, record_messages, write_with_kafka
from tests.schemas.values import samples
from tests.support.soak import times


def check(sample: Sample, codec: Codec) -> None:
    message = messages()[sample.message]
    flexible = message.flexible(sample.version)
    value = codec.decode(message.struct, sample.data, sample.version, flexible)
    assert kafka_json(message, sample.version, value) == sample.value
    assert codec.encode(value, sample.version, flexible).hex() == sample.data.hex()


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("name", [message.kafka.name for message in record_messages()])
def test_decodes_records_written_by_kafka(name: str, codec: Codec) -> None:
    seen = set()
    for sample in read_records():
        if sample.message == name:
            check(sample, codec)
            seen.add(sample.version)
    assert seen == set(messages()[name].versions)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("name", [message.kafka.name for message in old_messages()])
def test_decodes_old_versions_written_by_kafka_3_9_1(name: str, codec: Codec) -> None:
    old = [sample for sample in read_records() if sample.message == name]
    for sample in old:
        check(sample, codec)
    assert {sample.version for sample in old} == set(messages()[name].old_versions)


def test_record_ids_match_kafka() -> None:
    ids = {sample.key: sample.message for sample in read_records() if messages()[sample.message].kafka.kind == "metadata"}
    assert ids == {record_id: record_type.struct.__name__ for record_id, record_type in BY_ID.items()}


def test_kafka_encodes_every_message_and_version_identically() -> None:
    tasks = [
        (message, version, value)
        for message in messages().values()
        for version in message.current_versions
        for value in samples(message.struct, version, random_ones=times(6, soak=24))
    ]
    for (message, version, value), sample in zip(tasks, write_with_kafka(tasks), strict=True):
        for codec in CODECS:
            ours = codec.encode(value, version, message.flexible(version))
            assert ours.hex() == sample.data.hex(), f"{sample.message} v{version}, {codec.name}: {value}"
            assert codec.decode(message.struct, sample.data, version, message.flexible(version)) == value
