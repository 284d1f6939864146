"""What a plan forgives: bytes that librdkafka leaves behind some requests. Captured from confluent-kafka 2.16.1 and 2.0.2."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.dispatch import registry
from minibroker.dispatch.plan import Plan
from minibroker.errors import WireError
from tests.golden import golden

ALL_TOPICS = bytes.fromhex("0003 000d 00000003 0007 72646b61666b61 00 00 00 00 00 01 00 00")
ALL_GROUPS = bytes.fromhex("0010 0004 00000003 0007 72646b61666b61 00 01 00 00")  #: of 2.0.2


def decode(frame: bytes) -> tuple[str | None, Any]:
    api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    handler = registry.load().get(api_key)
    assert handler is not None
    return Plan(handler, version).decode(memoryview(frame), len(frame), int.from_bytes(frame[8:10], "big", signed=True))


def test_request_for_all_topics_with_trailing_bytes() -> None:
    client_id, request = decode(ALL_TOPICS)
    assert client_id == "rdkafka"
    assert request.topics is None


def test_request_for_all_groups_with_a_trailing_byte() -> None:
    client_id, request = decode(ALL_GROUPS)
    assert client_id == "rdkafka"
    assert request.states_filter == []


def test_other_apis_forgive_nothing() -> None:
    with pytest.raises(WireError, match="1 bytes left over"):
        decode(golden("k21_delete_records_v2_request_java_4.3.1").frame + b"\0")
