"""Overrides of topics in records that Apache Kafka can read: it refuses to start where segment.bytes is below a megabyte (KIP-1030)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minibroker.cluster.metadata_image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, config_records
from minibroker.schemas.internal.setting_records import ConfigRecord

MEGABYTE = 1 << 20
VALUES = st.none() | st.sampled_from([14, 500, MEGABYTE - 1, MEGABYTE, 1 << 30]).map(str)


def as_kafka_sees(records: list[ConfigRecord]) -> dict[str, str]:
    found: dict[str, str] = {}
    for record in records:
        if record.value is None:
            del found[record.name]  # nothing is taken away that is not there
        else:
            found[record.name] = record.value
    return found


@given(st.lists(VALUES, max_size=6))
def test_segments_of_any_size_in_words_that_kafka_takes(values: list[str | None]) -> None:
    image = MetadataImage()
    records: list[ConfigRecord] = []
    before: str | None = None
    for value in values:
        step = config_records(TOPIC_RESOURCE, "orders", "segment.bytes", before, value)
        records += step
        for record in step:
            image.apply(record)
        assert image.config_of(TOPIC_RESOURCE, "orders") == ({} if value is None else {"segment.bytes": value})
        assert len(as_kafka_sees(records)) == (value is not None)
        assert all((name == "segment.bytes") == (int(each) >= MEGABYTE) for name, each in as_kafka_sees(records).items())
        before = value
    again = MetadataImage()
    for record in image.to_records():
        again.apply(record)
    assert again.config_of(TOPIC_RESOURCE, "orders") == image.config_of(TOPIC_RESOURCE, "orders")


def test_other_configs_are_written_as_they_are() -> None:
    for resource, name in ((TOPIC_RESOURCE, "retention.bytes"), (BROKER_RESOURCE, "log.segment.bytes")):
        (record,) = config_records(resource, "1", name, None, "40")
        assert (record.name, record.value) == (name, "40")
        (removal,) = config_records(resource, "1", name, "40", None)
        assert (removal.name, removal.value) == (name, None)
