"""Overrides of topics in records that Apache Kafka can read: it refuses to start where segment.bytes is below a megabyte (KIP-1030)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minibroker.cluster.configs.topic_config import log_config
from minibroker.cluster.metadata.metadata_image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, config_records
from minibroker.log.log_config import LogConfig
from minibroker.schemas.internal.setting_records import ConfigRecord

MEGABYTE = 1 << 20
SEGMENT, INTERNAL = "segment.bytes", "internal.segment.bytes"
SIZES = st.none() | st.sampled_from([14, 500, MEGABYTE - 1, MEGABYTE, 1 << 30]).map(str)
INTERNAL_SIZES = st.none() | st.sampled_from([-1, 0, 50, MEGABYTE, 1 << 30]).map(str)


def as_kafka_sees(records: list[ConfigRecord]) -> dict[str, str]:
    found: dict[str, str] = {}
    for record in records:
        if record.value is None:
            del found[record.name]  # nothing is taken away that is not there
        else:
            found[record.name] = record.value
    return found


def segment_bytes(config: dict[str, str]) -> int:
    """The size in force."""
    return log_config(LogConfig(), config).segment_bytes


@given(st.lists(st.tuples(SIZES, INTERNAL_SIZES), max_size=6))
def test_segment_bytes_is_written_in_kafkas_range(steps: list[tuple[str | None, str | None]]) -> None:
    image = MetadataImage()
    records: list[ConfigRecord] = []
    for size, internal in steps:
        wanted = {name: value for name, value in ((SEGMENT, size), (INTERNAL, internal)) if value is not None}
        step = config_records(TOPIC_RESOURCE, "orders", image.config_of(TOPIC_RESOURCE, "orders"), wanted)
        records += step
        for record in step:
            image.apply(record)
        found = image.config_of(TOPIC_RESOURCE, "orders")
        is_raised = size is not None and internal is not None and int(size) < MEGABYTE
        assert found == ({**wanted, SEGMENT: str(MEGABYTE)} if is_raised else wanted)
        kafkas = as_kafka_sees(records)
        assert int(kafkas.get(SEGMENT, MEGABYTE)) >= MEGABYTE
        assert segment_bytes(found) == int(kafkas.get(INTERNAL, kafkas.get(SEGMENT, LogConfig().segment_bytes)))
    again = MetadataImage()
    for record in image.to_records():
        again.apply(record)
    assert again.config_of(TOPIC_RESOURCE, "orders") == image.config_of(TOPIC_RESOURCE, "orders")


def test_other_configs_are_written_unchanged() -> None:
    for resource, name in ((TOPIC_RESOURCE, "retention.bytes"), (BROKER_RESOURCE, "log.segment.bytes"), (BROKER_RESOURCE, INTERNAL)):
        (record,) = config_records(resource, "1", {}, {name: "40"})
        assert (record.name, record.value) == (name, "40")
        (removal,) = config_records(resource, "1", {name: "40"}, {})
        assert (removal.name, removal.value) == (name, None)
        assert config_records(resource, "1", {name: "40"}, {name: "40"}) == []
