"""Around handlers: what they give at once, later or not at all is seen when it is there, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed, then
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.middleware import after, later, refusal, served, wrapped
from minibroker.dispatch.registry import Handler, Registry, load
from minibroker.errors import CorruptMessage, InvalidRequest, NotLeaderOrFollower, WireError
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets, k03_metadata, k26_end_txn
from tests.support.broker_in_memory import BrokerInMemory, frame_of, records

LIST = k02_list_offsets.Request(
    replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[k02_list_offsets.Partition(partition_index=0, timestamp=-1)])]
)


def fetch(*, max_wait_ms: int = 500, session_id: int = 0, session_epoch: int = -1) -> k01_fetch.Request:
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [k01_fetch.Topic(topic="orders", partitions=[partition])]
    return k01_fetch.Request(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics, session_id=session_id, session_epoch=session_epoch)


def produce(*, acks: int = -1) -> k00_produce.Request:
    topic = k00_produce.Topic(name="orders", partition_data=[k00_produce.Partition(index=0, records=records(1))])
    return k00_produce.Request(acks=acks, timeout_ms=1000, topic_data=[topic])


def around(broker: BrokerInMemory, watch: Callable[[Handler, Any, Any], Any]) -> None:
    """Have every request of the broker go through `watch`."""
    broker.services.registry = wrapped(load(), lambda handler: handler.around(partial(watch, handler)))
    broker.dispatcher = Dispatcher(broker.services)


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(topics={"orders": 1})


def test_a_wrapped_registry_serves_the_same_and_keeps_each_modules_shape_of_errors() -> None:
    plain = load()
    made = wrapped(plain, lambda handler: handler.around(partial(handler.handle)))
    assert [api.key for api in made.apis()] == [api.key for api in plain.apis()]
    for handler in plain:
        other = made.get(handler.api.key)
        assert other is not None
        assert (other.module, other.on_error) == (handler.module, handler.on_error)
    assert [handler.api.key for handler in wrapped(plain, lambda handler: handler)] == [api.key for api in plain.apis()]


def test_immediate_answer_is_changed(broker: BrokerInMemory) -> None:
    def watch(handler: Handler, ctx: Any, request: Any) -> Any:
        def changed(response: Any) -> Any:
            response.throttle_time_ms = 7
            return response

        return after(handler.handle(ctx, request), changed)

    around(broker, watch)
    assert broker.ask(LIST).throttle_time_ms == 7


def test_silence_is_not_changed_but_seen(broker: BrokerInMemory) -> None:
    seen: list[Any] = []

    def note(response: Any) -> Any:
        seen.append(response)
        return response

    around(broker, lambda handler, ctx, request: then(after(handler.handle(ctx, request), note), note))
    assert broker.ask(produce(acks=0), 9) is None
    assert seen == [NO_RESPONSE]


def test_delayed_answer_is_changed_on_completion(broker: BrokerInMemory) -> None:
    def watch(handler: Handler, ctx: Any, request: Any) -> Any:
        def changed(response: Any) -> Any:
            response.throttle_time_ms = 7
            return response

        return after(after(handler.handle(ctx, request), changed), changed)

    around(broker, watch)
    waiting = broker.begin(fetch(), 11)
    assert broker.services.purgatory.count == 1
    broker.append("orders", 0, records(3))
    broker.clock.advance(0)
    response = waiting.answer()
    assert response.throttle_time_ms == 7
    assert response.responses[0].partitions[0].high_watermark == 3
    assert broker.services.purgatory.count == 0


def test_step_aside_and_cancel_reach_the_inner_wait(broker: BrokerInMemory) -> None:
    around(broker, lambda handler, ctx, request: after(handler.handle(ctx, request), lambda response: response))
    waiting = broker.begin(fetch(), 11)
    waiting.in_flight.step_aside()
    assert waiting.answer().responses[0].partitions[0].high_watermark == 0
    gone = broker.begin(fetch(), 11)
    assert broker.services.purgatory.count == 1
    gone.in_flight.cancel()
    assert broker.services.purgatory.count == 0
    broker.clock.advance(1000)
    assert not gone.is_done


def test_an_answer_may_lead_to_a_further_wait(broker: BrokerInMemory) -> None:
    """A Fetch that waits, whose answer waits for a time, whose end is a request that waits again."""

    def watch(handler: Handler, ctx: Any, request: Any) -> Any:
        def again() -> Any:
            return handler.handle(ctx, request)

        if request.min_bytes == 1:
            return handler.handle(ctx, request)
        return then(handler.handle(ctx, request), lambda _: later(ctx.broker.clock, 100, again))

    around(broker, watch)
    request = fetch(max_wait_ms=500)
    request = type(request)(max_wait_ms=500, min_bytes=10_000, topics=request.topics)
    waiting = broker.begin(request, 4)
    broker.clock.advance(500)
    assert not waiting.is_done, "the first wait is over, the time is not"
    broker.clock.advance(99)
    assert broker.services.purgatory.count == 0
    waiting.in_flight.step_aside()
    assert not waiting.is_done, "a time is waited for, whoever comes behind"
    broker.clock.advance(1)
    assert broker.services.purgatory.count == 1
    broker.append("orders", 0, records(2))
    broker.clock.advance(500)
    assert waiting.answer().responses[0].partitions[0].high_watermark == 2
    assert broker.services.purgatory.count == 0


def test_time_that_is_waited_for_in_vain_leaves_no_timer(broker: BrokerInMemory) -> None:
    done: list[int] = []

    def watch(handler: Handler, ctx: Any, request: Any) -> Any:
        def work() -> Any:
            done.append(1)
            return handler.handle(ctx, request)

        return later(ctx.broker.clock, 100, work)

    around(broker, watch)
    waiting = broker.begin(LIST)
    waiting.in_flight.cancel()
    broker.clock.advance(200)
    assert not done
    assert broker.begin(LIST).is_done is False


def test_answer_resolved_before_binding_is_delivered() -> None:
    inner = Delayed()
    inner.complete(1)
    ran: list[Any] = []

    outer = after(inner, lambda response: response + 1)
    outer.bind(lambda work: ran.append(work()), str)
    assert ran == [2]


def test_errors_while_waiting_are_answers_or_go_on(broker: BrokerInMemory) -> None:
    def fail(handler: Handler, ctx: Any, request: Any) -> Any:
        def work() -> Any:
            raise CorruptMessage

        return then(later(ctx.broker.clock, 10, work), lambda response: response)

    around(broker, fail)
    waiting = broker.begin(LIST)
    broker.clock.advance(10)
    assert waiting.answer().topics[0].partitions[0].error_code == CorruptMessage.code

    seen: list[Any] = []

    def note(response: Any) -> Any:
        seen.append(response.topics[0].partitions[0].error_code)
        return response

    def delayed_failure(ctx: Any, request: Any) -> Any:
        delayed = Delayed()

        def work() -> Any:
            raise InvalidRequest

        ctx.broker.clock.call_later_ms(10, lambda: delayed.resolve(work))
        return delayed

    around(broker, lambda handler, ctx, request: served(handler.around(delayed_failure), ctx, request, note))
    waiting = broker.begin(LIST)
    broker.clock.advance(10)
    assert waiting.answer().topics[0].partitions[0].error_code == InvalidRequest.code
    assert seen == [InvalidRequest.code]


def test_errors_of_the_whole_request_are_seen_by_served(broker: BrokerInMemory) -> None:
    seen: list[Any] = []

    def note(response: Any) -> Any:
        seen.append(response)
        return response

    def failing(ctx: Any, request: Any) -> Any:
        raise InvalidRequest

    around(broker, lambda handler, ctx, request: served(handler.around(failing), ctx, request, note))
    assert broker.ask(LIST).topics[0].partitions[0].error_code == InvalidRequest.code
    assert len(seen) == 1


def test_a_connection_that_is_to_be_closed_is_closed_at_once_and_later(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    def cut(_: Any) -> Any:
        raise WireError("a fault")

    around(broker, lambda handler, ctx, request: then(handler.handle(ctx, request), cut))
    with pytest.raises(WireError, match="a fault"):
        broker.begin(LIST)
    waiting = broker.begin(fetch(), 11)
    broker.append("orders", 0, records(1))
    broker.clock.advance(0)
    assert waiting.in_flight.is_done
    assert waiting.in_flight.answer is None
    assert "closing a connection from 127.0.0.1: a fault" in caplog.text


def test_refusals_use_the_response_schema_or_close(broker: BrokerInMemory) -> None:
    registry = load()
    seen = []

    def refuse(handler: Handler, ctx: Any, request: Any) -> Any:
        seen.append(handler.api.name)
        return refusal(handler, ctx, request, NotLeaderOrFollower())

    around(broker, refuse)
    code = NotLeaderOrFollower.code
    assert broker.ask(LIST).topics[0].partitions[0].error_code == code
    assert broker.ask(produce(), 9).responses[0].partition_responses[0].error_code == code
    assert broker.ask(fetch(), 4).responses[0].partitions[0].error_code == code
    end = k26_end_txn.Request(transactional_id="t", producer_id=1, producer_epoch=0, committed=True)
    assert broker.ask(end).error_code == code
    assert broker.ask(k03_metadata.Request(topics=[k03_metadata.Topic(name="orders")])).topics[0].error_code == code
    with pytest.raises(WireError, match="has no response to it"):
        broker.begin(produce(acks=0), 9)
    assert len(seen) == 6
    assert registry is load()


def test_a_doubled_wrapping_and_an_empty_registry() -> None:
    assert wrapped(Registry(), lambda handler: handler).apis() == []
    twice = wrapped(wrapped(load(), lambda each: each.around(each.handle)), lambda each: each.around(each.handle))
    assert len(twice.apis()) == len(load().apis())


def test_a_frame_through_the_wrapped_registry_is_an_in_flight(broker: BrokerInMemory) -> None:
    around(broker, lambda handler, ctx, request: later(ctx.broker.clock, 5, lambda: handler.handle(ctx, request)))
    answer = broker.dispatcher.dispatch(broker.connection, frame_of(LIST))
    assert isinstance(answer, Delayed)
    called: list[int] = []
    answer.on_done(lambda: called.append(1))
    assert isinstance(broker.clock, ManualClock)
    broker.clock.advance(5)
    assert called == [1]
