"""The largest and the smallest number in each integer field of each API's requests: an answer, or a close, and no exception.

The requests are golden frames of real clients. Their topics, groups and partitions become such that are there, so that handlers get as
far as the number that is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from minibroker.errors import WireError
from minibroker.wire.codec import encode
from minibroker.wire.schema import fields_of
from tests.golden import Golden, all_golden
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.committed_offsets import GROUP, broker_with_groups

TOPIC = "orders"
NAMES = {"name": TOPIC, "topic": TOPIC, "topic_name": TOPIC, "group_id": GROUP, "group": GROUP}
INDEXES = {"partition_index", "partition", "index"}
LIMITS = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}
REQUESTS = [each for each in all_golden().values() if each.direction == "request"]
STEMS = sorted({each.stem for each in REQUESTS})


def largest_of_each_version(stem: str) -> list[Golden]:
    requests = sorted((each for each in REQUESTS if each.stem == stem), key=lambda each: len(each.data))
    largest = {each.version: each for each in requests if each.version <= each.schema.VERSIONS[1]}
    return list(largest.values())


def adapt(value: Any, topic_id: UUID) -> None:
    """Make it about what is there."""
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if isinstance(content, UUID):
            setattr(value, field.name, topic_id)
        elif isinstance(content, str) and field.name in NAMES:
            setattr(value, field.name, NAMES[field.name])
        elif field.name in INDEXES and not isinstance(content, list):
            setattr(value, field.name, 0)
        for each in structs_in(field, content):
            adapt(each, topic_id)


def structs_in(field: Any, content: Any) -> list[Any]:
    if field.struct is None or content is None:
        return []
    return list(content) if field.is_array else [content]


def numbers(value: Any, version: int) -> Iterator[tuple[Any, str, int]]:
    """Each number with the struct that has it, and the limit of its type."""
    for field in fields_of(type(value)):
        if not field.since <= version <= field.until:
            continue
        if field.kind in LIMITS and not field.is_array:
            yield value, field.name, LIMITS[field.kind]
        for each in structs_in(field, getattr(value, field.name)):
            yield from numbers(each, version)


def exchange(broker: BrokerInMemory, request: Any, version: int) -> None:
    try:
        broker.begin(request, version)
    except WireError:
        return  # the connection is closed
    broker.clock.advance(3_000)


@pytest.mark.parametrize("stem", STEMS)
def test_extreme_numbers_cause_no_internal_error(stem: str, caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_groups({TOPIC: 2}, {"log.message.timestamp.after.max.ms": str(2**63 - 1), "auto.create.topics.enable": "false"})
    broker.append(TOPIC, 0, records(10))
    topic_id = broker.cluster.topics[TOPIC].topic_id
    for each in largest_of_each_version(stem):
        request = each.decode()
        adapt(request, topic_id)
        for holder, name, limit in list(numbers(request, each.version)):
            before = getattr(holder, name)
            for number in (limit - 1, -limit):
                setattr(holder, name, number)
                assert encode(request, each.version, flexible=each.flexible)
                exchange(broker, request, each.version)
                failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
                assert failures == [], f"{each.name}: {name}={number}"
            setattr(holder, name, before)
