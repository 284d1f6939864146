"""A compacted topic as clients see it, while it is written and compacted; runs against any Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.clients.adapters import CLIENTS
from tests.support.keyed_records import Kept, KeyedWriter, check_kept, read_all

KEYS = [b"key %d" % number for number in range(40)]


def set_topic_config(admin: Any, topic: str, name: str, value: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=60)


def test_a_reader_sees_the_last_values_of_a_topic_that_is_compacted_while_it_is_written(
    bootstrap: str, admin: Any, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(**{"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "1.0"})
    with KeyedWriter(bootstrap, topic, KEYS) as writer:
        writer.wait_for(3000)
        assert len(read_all(bootstrap, topic)) >= 3000
        set_topic_config(admin, topic, "min.cleanable.dirty.ratio", "0.01")
        deadline = time.monotonic() + 60  # Apache Kafka looks every 15 s
        while len(found := read_all(bootstrap, topic)) > len(writer.acknowledged) - 1500:
            assert time.monotonic() < deadline, "it is not compacted"
        assert [kept.offset for kept in found] == sorted({kept.offset for kept in found})
        writer.wait_for(100)
        writer.finish()
        check_kept(read_all(bootstrap, topic), writer)


def test_a_topic_becomes_compacted(bootstrap: str, admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"})
    with KeyedWriter(bootstrap, topic, KEYS, with_tombstones=True) as writer:
        writer.wait_for(2500)
        writer.finish()
        assert [kept.offset for kept in read_all(bootstrap, topic)] == sorted(writer.acknowledged)
        set_topic_config(admin, topic, "cleanup.policy", "compact")
        deadline = time.monotonic() + 60
        while len(found := read_all(bootstrap, topic)) > 1500:
            assert time.monotonic() < deadline, "it is not compacted"
        check_kept(found, writer)
        wait_until_it_stays(bootstrap, topic)
        found = read_all(bootstrap, topic)
        for name, client in CLIENTS.items():
            read = [
                Kept(each.offset, each.record.key or b"", each.record.value) for each in client.read(bootstrap, topic, count=len(found))
            ]
            assert read == found, name


def wait_until_it_stays(bootstrap: str, topic: str) -> None:
    """Return when two reads a second apart find the same."""
    before: list[Kept] = []
    while before != (found := read_all(bootstrap, topic)):
        before = found
        time.sleep(1)  # the interval itself
