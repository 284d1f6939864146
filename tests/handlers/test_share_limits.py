"""ShareFetch and ShareAcknowledge of too many partitions are refused before any work, and so is a share session that grows too large."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minibroker.config.request_limits import SHARE_PARTITIONS_MAX
from minibroker.coordinator.share.sessions import ShareSessions
from minibroker.errors import InvalidRequest, ShareSessionNotFound
from minibroker.schemas import k78_share_fetch, k79_share_acknowledge
from tests.support.broker_in_memory import BrokerInMemory

TOPIC = UUID(int=7)
MEMBER = ("g", "m")


def request(schema: Any, count: int, epoch: int) -> Any:
    topic = schema.Topic(
        topic_id=TOPIC, partitions=[schema.Partition(partition_index=index, acknowledgement_batches=[]) for index in range(count)]
    )
    limits: dict[str, Any] = (
        {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1, "max_records": 1, "batch_size": 1} if schema is k78_share_fetch else {}
    )
    if schema is k78_share_fetch:
        limits["forgotten_topics_data"] = []
    return schema.Request(group_id="g", member_id="m", share_session_epoch=epoch, topics=[topic], **limits)


@pytest.mark.parametrize("schema", [k78_share_fetch, k79_share_acknowledge])
def test_a_request_of_too_many_partitions(schema: Any) -> None:
    broker = BrokerInMemory()
    for count, code in ((SHARE_PARTITIONS_MAX - 1, ShareSessionNotFound.code), (SHARE_PARTITIONS_MAX, InvalidRequest.code)):
        pending = broker.begin(request(schema, count, 1))
        broker.clock.advance(0)
        assert pending.answer().error_code == code


def test_a_session_that_grows_too_large() -> None:
    sessions = ShareSessions()
    sessions.begin(MEMBER, [(TOPIC, 0)], limit=1)
    assert sessions.update(MEMBER, [(TOPIC, index) for index in range(SHARE_PARTITIONS_MAX)], [])
    assert not sessions.update(MEMBER, [(TOPIC, SHARE_PARTITIONS_MAX)], [])
