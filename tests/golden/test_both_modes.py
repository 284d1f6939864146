"""Every golden request, answered with `minibroker.like.kafka` and without: answers differ only where the list of differences says so.

The requests of an API go to one broker in the order of their names. It has the topics that they name, and either no internal topic or those
of groups and transactions. Many answers are errors: those must be the same, too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from minibroker.config.broker_properties import LIKE_KAFKA
from minibroker.config.differences import DIFFERENCES
from minibroker.dispatch.delayed import Delayed
from minibroker.errors import KafkaError, WireError
from minibroker.wire.api import name_of
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from minibroker.wire.schema import Struct, fields_of
from tests.golden import Golden, all_golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_like

STEMS = sorted({frame.stem for frame in all_golden().values()})
SWITCHED_APIS = {name for each in DIFFERENCES for name in each.apis}
DRAWN = re.compile(r"UUID\('[0-9a-f-]+'\)|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|'[A-Za-z0-9_-]{22}'")  #: ids that brokers draw
NAMES = ("name", "topic", "topic_name")


@functools.cache
def requests(stem: str) -> list[Golden]:
    return sorted(frame for frame in all_golden().values() if frame.stem == stem and frame.direction == "request")


def topic_names(value: Any) -> Iterator[str]:
    """Every name of a topic in a request."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from topic_names(each)
    elif isinstance(value, Struct):
        for field in fields_of(type(value)):
            found = getattr(value, field.name)
            if field.name in NAMES and isinstance(found, str):
                yield found
            yield from topic_names(found)


def plain(value: Any) -> Any:
    """An answer as dicts and lists, with its records as bytes."""
    if isinstance(value, Struct):
        return {field.name: plain(getattr(value, field.name)) for field in fields_of(type(value))}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, memoryview) else value


def broker_for(stem: str, *, is_switched: bool, is_prepared: bool) -> BrokerInMemory:
    broker = kafka_like(config={"offsets.topic.num.partitions": "2", LIKE_KAFKA: str(is_switched).lower()})
    names = {"t"}
    if is_prepared and stem != "k19_create_topics":
        for frame in requests(stem):
            with suppress(WireError):  # an unknown version, or bytes left over
                names.update(topic_names(frame.decode()))
    for name in sorted(names):
        with suppress(KafkaError):  # names of other things, and names that no topic may have
            broker.cluster.create_topic(name, partition_count=2)
    if is_prepared:
        broker.services.coordinators.groups.ensure_topic()
        broker.services.coordinators.transactions.ensure_topic()
    return broker


def answer_to(broker: BrokerInMemory, request: Golden) -> str:
    """The decoded answer without what brokers draw at random; in words if there is no answer."""
    try:
        answer = broker.dispatcher.dispatch(broker.connection, memoryview(request.frame))
    except WireError:
        return "the connection is closed"
    if isinstance(answer, Delayed) and not answer.is_done:
        answer.cancel()
        return "it waits"
    chunks = answer.answer if isinstance(answer, Delayed) else answer
    data = b"".join(map(bytes, chunks or ()))[4:]
    if not data:
        return "nothing"
    api = broker.services.registry.get(request.api_key)
    assert api is not None
    if not api.api.serves(request.version):
        return data.hex()  # ApiVersions alone answers versions that are not served
    _, position = decode_response_header(data, response_header_version(api.api, request.version))
    response = decode(api.api.Response, data[position:], request.version, flexible=api.api.flexible(request.version))
    return DRAWN.sub("drawn", repr(plain(response)))


@functools.cache
def differing(stem: str) -> tuple[str, ...]:
    """The requests whose answers are others with the switch."""
    found = []
    for is_prepared in (False, True):
        usual, switched = (broker_for(stem, is_switched=each, is_prepared=is_prepared) for each in (False, True))
        found += [frame.name for frame in requests(stem) if answer_to(usual, frame) != answer_to(switched, frame)]
    return tuple(found)


@pytest.mark.parametrize("stem", STEMS)
def test_only_listed_answers_differ_between_modes(stem: str) -> None:
    name = name_of(requests(stem)[0].schema)
    assert name in SWITCHED_APIS or not differing(stem), differing(stem)[:5]


def test_the_switch_shows_in_the_answers() -> None:
    """What golden requests alone can show. More is in tests/dispatch/test_like_kafka.py and tests/handlers/test_groups_like_kafka.py."""
    shown = {name_of(requests(stem)[0].schema) for stem in STEMS if differing(stem)}
    assert shown >= {"Metadata", "FindCoordinator", "Fetch", "ListOffsets", "DescribeConfigs", "DescribeLogDirs"}
