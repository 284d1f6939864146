"""Every request gets an answer or a close: unknown keys and versions, lies in the bytes (FAULTS 10), errors of handlers."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Any, Self

import pytest

from minibroker.dispatch import dispatcher as dispatcher_module
from minibroker.dispatch import plan as plan_module
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import CorruptMessage, WireError
from minibroker.schemas import k02_list_offsets, k03_metadata, k18_api_versions
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import RequestHeader, decode_request_header, encode_request_header
from tests.support.broker_in_memory import BrokerInMemory

NO_TAGS = b"\0"
REQUEST = k03_metadata.Request(topics=[k03_metadata.Topic(name="orders")], allow_auto_topic_creation=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 1})
    yield broker
    broker.cluster.close()


def header(key: int, version: int, correlation_id: int = 7, *, tags: bool = False) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, 2) + b"me" + (NO_TAGS if tags else b"")


def answer(broker: BrokerInMemory, frame: bytes) -> bytes:
    chunks = broker.dispatcher.dispatch(broker.connection, memoryview(bytearray(frame)))
    assert isinstance(chunks, list)
    return b"".join(chunks)


class Serving:
    """A dispatcher whose Metadata is done by a function of the test's."""

    def __init__(self, broker: BrokerInMemory, handle: Any) -> None:
        self.broker = broker
        registry = Registry()
        registry.add(Handler(api_of(k03_metadata), handle))
        broker.services.registry, self._registry = registry, broker.services.registry
        self.dispatcher = Dispatcher(broker.services)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.services.registry = self._registry

    def begin(self, version: int = 1) -> list[Any] | Delayed:
        frame = header(3, version) + encode(REQUEST, version, flexible=False)
        return self.dispatcher.dispatch(self.broker.connection, memoryview(frame))

    @staticmethod
    def response(chunks: list[Any] | None, version: int = 1) -> k03_metadata.Response:
        assert chunks is not None
        return decode(k03_metadata.Response, b"".join(chunks)[8:], version, flexible=False)


EMPTY = k03_metadata.Response(brokers=[], topics=[])


@pytest.mark.parametrize("version", [5, 6, 127, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: BrokerInMemory, version: int) -> None:
    # What Kafka 4.3.1 answers, byte by byte: error 35 and the range of key 18 alone.
    assert answer(broker, header(18, version, 77, tags=True) + b"\2a\2b\0") == bytes.fromhex("000000100000004d002300000001001200000004")


@pytest.mark.parametrize(("key", "version"), [(99, 0), (-1, 0), (3, 14), (3, -1), (1, 19), (19, 1), (32767, 32767)])
def test_other_unknown_keys_and_versions_close(broker: BrokerInMemory, key: int, version: int) -> None:
    with pytest.raises(WireError, match="is not supported"):
        answer(broker, header(key, version))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3\0\4",
        struct.pack(">hhih", 3, 4, 7, 100) + b"short",
        struct.pack(">hhih", 3, 4, 7, -2),
        struct.pack(">hhih", 3, 4, 7, 2) + b"\xff\xfe" + struct.pack(">ib", 0, 1),
        header(3, 4) + struct.pack(">i", 2**31 - 1),
        header(3, 4) + struct.pack(">i", -2),
        header(3, 4) + struct.pack(">ih", 1, -1) + b"\1",
        header(3, 4) + struct.pack(">ih", 1, -2) + b"\1",
        header(2, 1) + struct.pack(">ii", -1, 0) + b"left over",
        header(3, 4) + struct.pack(">i", 0),
        header(3, 12, tags=True) + b"\xff\xff\xff\xff\xff\x01",
        header(3, 12, tags=True) + b"\1\1\0\x80\x80\x80\x80\x04",
        header(3, 12) + b"\x80\x80\x80\x80\x04",
    ],
    ids=[
        "empty", "half a header", "client_id too long", "client_id of length -2", "client_id not UTF-8", "array of 2^31-1",
        "array of -2", "null in a string that may not be", "string of -2", "left over", "cut", "varint of 6 bytes", "2^30 tagged fields",
        "2^30 tags in the header",
    ],
)  # fmt: skip
def test_lies_close_the_connection(broker: BrokerInMemory, frame: bytes) -> None:
    with pytest.raises(WireError):
        answer(broker, frame)


def test_a_null_client_id_is_one(broker: BrokerInMemory) -> None:
    frame = struct.pack(">hhih", 18, 0, 7, -1)
    assert answer(broker, frame)[4:10] == struct.pack(">ih", 7, 0)


@pytest.mark.parametrize("version", [1, 9])
def test_decode_plan_reads_headers_like_the_schema(broker: BrokerInMemory, version: int) -> None:
    api = api_of(k03_metadata)
    written = RequestHeader(api_key=3, api_version=version, correlation_id=-5, client_id="rdkafka")
    frame = encode_request_header(written, 2 if api.flexible(version) else 1) + encode(REQUEST, version, flexible=api.flexible(version))
    read, position = decode_request_header(frame, lambda _, number: api.flexible(number))
    handler = broker.services.registry.get(3)
    assert handler is not None
    client_id, request = plan_module.Plan(handler, version).decode(memoryview(frame), len(frame), 7)
    assert (client_id, read) == (written.client_id, written)
    assert request == decode(k03_metadata.Request, frame[position:], version, flexible=api.flexible(version))


def test_internal_error_is_answered_and_logged(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    def fail(ctx: Any, request: Any) -> Any:
        raise ZeroDivisionError("a mistake")

    with Serving(broker, fail) as serving, caplog.at_level(logging.ERROR):
        response = serving.response(serving.begin())  # type: ignore[arg-type]  # the handler never waits
    assert [(topic.error_code, topic.name) for topic in response.topics] == [(-1, "orders")]
    assert "ZeroDivisionError: a mistake" in caplog.text


def test_a_kafka_error_is_an_answer_and_no_news(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    def fail(ctx: Any, request: Any) -> Any:
        raise CorruptMessage

    with Serving(broker, fail) as serving:
        response = serving.response(serving.begin())  # type: ignore[arg-type]  # the handler never waits
    assert response.topics[0].error_code == CorruptMessage.code
    assert not caplog.records


def test_a_handler_that_returns_nothing_is_our_mistake(broker: BrokerInMemory) -> None:
    with Serving(broker, lambda ctx, request: None) as serving:
        response = serving.response(serving.begin())  # type: ignore[arg-type]  # the handler never waits
    assert response.topics[0].error_code == -1


def test_a_delayed_answer(broker: BrokerInMemory) -> None:
    delayed = Delayed()
    done: list[bool] = []
    with Serving(broker, lambda ctx, request: delayed) as serving:
        waiting = serving.begin()
        assert isinstance(waiting, Delayed)
        waiting.on_done(lambda: done.append(waiting.is_done))
        delayed.resolve(lambda: None)
        assert not done
        delayed.complete(EMPTY)
        delayed.complete("too late")
    assert done == [True]
    assert serving.response(waiting.answer) == EMPTY


def test_delayed_answer_that_is_already_complete(broker: BrokerInMemory) -> None:
    delayed = Delayed()
    delayed.complete(EMPTY)
    with Serving(broker, lambda ctx, request: delayed) as serving:
        waiting = serving.begin()
    assert isinstance(waiting, Delayed)
    assert waiting.is_done
    assert serving.response(waiting.answer) == EMPTY


@pytest.mark.parametrize("error", [RuntimeError("later"), CorruptMessage("later")])
def test_an_error_while_waiting_is_answered(broker: BrokerInMemory, error: Exception) -> None:
    def fail() -> Any:
        raise error

    delayed = Delayed()
    with Serving(broker, lambda ctx, request: delayed) as serving:
        waiting = serving.begin()
        delayed.resolve(fail)
    assert isinstance(waiting, Delayed)
    assert serving.response(waiting.answer).topics[0].error_code == getattr(error, "code", -1)


@pytest.mark.parametrize("error", [RuntimeError("on top"), CorruptMessage("on top"), None])
def test_failing_error_answer_closes_the_connection(
    broker: BrokerInMemory, error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and behind a wait: there the connection must not go on waiting for an answer that never comes."""

    def fail(*_: Any) -> Any:
        raise CorruptMessage

    def fail_again(*_: Any) -> Any:
        if error is not None:
            raise error
        return k03_metadata.Response(brokers=[], topics=None)  # type: ignore[arg-type]  # cannot be encoded

    monkeypatch.setattr(dispatcher_module, "error_answer", fail_again)
    with Serving(broker, fail) as serving, pytest.raises(WireError):
        serving.begin()
    delayed = Delayed()
    closed: list[object] = []
    with Serving(broker, lambda ctx, request: delayed) as serving:
        waiting = serving.begin()
        assert isinstance(waiting, Delayed)
        waiting.on_done(lambda: closed.append(waiting.answer))
        delayed.resolve(fail)
    assert closed == [None]


def test_a_cancelled_request_is_never_answered(broker: BrokerInMemory) -> None:
    delayed = Delayed()
    with Serving(broker, lambda ctx, request: delayed) as serving:
        waiting = serving.begin()
        assert isinstance(waiting, Delayed)
        waiting.on_done(lambda: pytest.fail("answered"))
        waiting.cancel()
        delayed.complete(EMPTY)
    assert waiting.answer is None


def test_every_api_that_is_listed_is_served(broker: BrokerInMemory) -> None:
    listed = {api.api_key for api in broker.ask(k18_api_versions.Request(client_software_name="a", client_software_version="1")).api_keys}
    assert {0, 1, k02_list_offsets.API_KEY, 3, 18, 23} <= listed
    assert listed == {api.key for api in broker.services.registry.apis()}
