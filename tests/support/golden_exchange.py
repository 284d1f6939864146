"""A client's own request frame, served by a broker in memory: its answer can be held against Kafka's, byte for byte.

What a broker draws at random is made to be what it was there: `kafka_like` gives node and cluster id, `topic_ids` the ids of topics
in the order of their creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from minibroker.cluster import cluster as cluster_module
from minibroker.dispatch.delayed import Delayed
from tests.golden import Golden, all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory


def kafka_like(topics: Mapping[str, int] | None = None, config: Mapping[str, str] | None = None) -> BrokerInMemory:
    """A broker with the identity of the Apache Kafka that the golden frames were taken from."""
    identity = {"node.id": "1", "cluster.id": "AAAAAAAAAAAAAAAAAAAAAQ", "listeners": "PLAINTEXT://127.0.0.1:26192"}
    return BrokerInMemory(topics=topics, config=identity | dict(config or {}))


def topic_ids(monkeypatch: pytest.MonkeyPatch, ids: Iterable[UUID]) -> None:
    """Topics that are created from now on get these ids."""
    drawn = iter(ids)
    monkeypatch.setattr(cluster_module, "random_uuid", lambda: next(drawn))


def serve(broker: BrokerInMemory, request: Golden) -> bytes:
    """The whole answer to a golden request, its size included."""
    answer = broker.dispatcher.dispatch(broker.connection, memoryview(request.frame))
    chunks = answer.answer if isinstance(answer, Delayed) else answer
    assert chunks is not None
    return b"".join(chunks)


def _response_to(request: Golden) -> Golden:
    name = request.name.replace("_request_", "_response_")
    return golden(name if name in all_golden() else name.removesuffix("_small"))  # of answers that are alike one is kept


def answer_of(request: Golden) -> Any:
    """What Kafka answered to it, decoded."""
    return _response_to(request).decode()


def kafka_answer(request: Golden) -> bytes:
    """What Kafka answered to it, the whole frame, under the correlation id of the request."""
    data = _response_to(request).data
    return data[:4] + request.frame[4:8] + data[8:]


def kafka_answers(request: Golden) -> list[bytes]:
    """What Kafka answered to this client at this version, whole frames under the correlation id of the request.

    Of a client's requests, and of Kafka's answers, the longest and the shortest are kept, each by its own length: no name says which
    answer is whose.
    """
    names = {request.name.removesuffix("_small").replace("_request_", "_response_") + suffix for suffix in ("", "_small")}
    return [data[:4] + request.frame[4:8] + data[8:] for name in names & set(all_golden()) for data in [golden(name).data]]
