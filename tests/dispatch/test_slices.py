"""Work in slices: turns, waiting, errors, and the end of a connection. The clock is one that counts the looks at it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.dispatch.delayed import Delayed, MakeResponse
from minibroker.dispatch.registry import Handler, Registry
from minibroker.dispatch.slices import ACTIVE_MAX, SLICE_S, Slices, Steps
from minibroker.errors import InvalidRequest, KafkaError
from minibroker.schemas import k12_heartbeat as schema
from minibroker.wire.api import api_of
from tests.support.broker_in_memory import BrokerInMemory, Pending, frame_of

STEPS_OF_A_SLICE = 10


class Owner:
    """Keeps what the dispatcher would answer."""

    def __init__(self, delayed: Delayed) -> None:
        self.response: Any = None
        self.error: Exception | None = None
        self.delayed = delayed
        delayed.bind(self.run, str)

    def run(self, work: MakeResponse) -> None:
        try:
            self.response = work()
        except KafkaError as error:
            self.error = error
        if self.response is not None or self.error is not None:
            self.delayed.finished()


class Bench:
    """Slices whose time passes by a tenth of a slice with each look at it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.looks = 0
        self.slices = Slices(self.clock, self.now_s)
        self.done: list[str] = []

    def now_s(self) -> float:
        self.looks += 1
        return self.looks * SLICE_S / STEPS_OF_A_SLICE

    def steps(self, name: str, count: int) -> Generator[None, None, Any]:
        for _ in range(count):
            self.done.append(name)
            yield
        return name

    def turn(self) -> None:
        """Let the loop run once: what is due now, and not what that schedules."""
        timers = self.clock._timers
        due = [timer for _, _, timer in sorted(timers, key=lambda each: each[:2])]
        timers.clear()
        for timer in due:
            assert timer.callback is not None
            timer.callback()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_little_work_is_done_at_once(bench: Bench) -> None:
    assert bench.slices.run(bench.steps("a", 5)) == "a"
    assert not len(bench.slices)


def test_much_work_is_done_in_turns(bench: Bench) -> None:
    owner = Owner(bench.slices.run(bench.steps("a", 100)))
    turns = 0
    while owner.response is None:
        before = len(bench.done)
        bench.turn()
        turns += 1
        assert len(bench.done) - before <= STEPS_OF_A_SLICE + 1
    assert owner.response == "a"
    assert turns >= 100 // STEPS_OF_A_SLICE - 1
    assert len(bench.done) == 100


def test_all_work_together_has_one_slice_in_a_turn(bench: Bench) -> None:
    for number in range(20):
        Owner(bench.slices.run(bench.steps(str(number), 1000)))
    bench.done.clear()
    bench.turn()
    assert len(bench.done) <= STEPS_OF_A_SLICE + 1


def test_only_so_many_take_turns(bench: Bench) -> None:
    names = [str(number) for number in range(ACTIVE_MAX + 3)]
    owners = [Owner(bench.slices.run(bench.steps(name, 100))) for name in names]
    bench.done.clear()
    for _ in range(2 * len(names)):
        bench.turn()
    assert set(bench.done) == set(names[:ACTIVE_MAX])
    while any(owner.response is None for owner in owners):
        bench.turn()
    assert [owner.response for owner in owners] == names


def test_steps_wait_for_delayed_results(bench: Bench) -> None:
    inner = Delayed()

    def steps() -> Steps:
        first = yield inner
        second = yield answered_already()
        return first + second

    def answered_already() -> Delayed:
        delayed = Delayed()
        delayed.complete(2)
        return delayed

    owner = Owner(bench.slices.run(steps()))
    bench.turn()
    assert owner.response != 3
    inner.complete(1)
    assert owner.response != 3, "the answer of another request is not made within that one"
    bench.turn()
    assert owner.response == 3
    assert inner.is_done


def test_error_of_an_awaited_result_is_raised_in_the_steps(bench: Bench) -> None:
    inner = Delayed()

    def fail() -> None:
        raise InvalidRequest("inner")

    def steps() -> Steps:
        caught = ""
        try:
            yield inner
        except InvalidRequest as error:
            caught = str(error)
        return caught

    owner = Owner(bench.slices.run(steps()))
    inner.resolve(fail)
    bench.turn()
    assert owner.response == "inner"


def test_an_error_is_the_answer(bench: Bench) -> None:
    def steps() -> Steps:
        yield from [None] * 50
        raise InvalidRequest("late")

    owner = Owner(bench.slices.run(steps()))
    bench.clock.advance(0)
    assert isinstance(owner.error, InvalidRequest)


def test_cancelled_work_is_closed_and_let_go(bench: Bench) -> None:
    ended = []

    def steps() -> Steps:
        try:
            while True:
                yield None
        finally:
            ended.append(True)

    delayed = bench.slices.run(steps())
    Owner(delayed)
    delayed.cancel()
    assert ended
    bench.clock.advance(0)
    assert not len(bench.slices)


def test_cancelling_work_cancels_its_awaited_result(bench: Bench) -> None:
    inner = Delayed()

    def steps() -> Steps:
        yield inner

    delayed = bench.slices.run(steps())
    Owner(delayed)
    delayed.cancel()
    assert inner.is_done


def test_through_the_dispatcher() -> None:
    broker = BrokerInMemory()
    bench = Bench()
    broker.services.slices.now_s = bench.now_s

    def handle(ctx: Any, request: schema.Request) -> Any:
        def steps() -> Steps:
            yield from [None] * 50
            if request.member_id == "bad":
                raise InvalidRequest
            return schema.Response(error_code=0, throttle_time_ms=7)

        return ctx.broker.slices.run(steps())

    registry = Registry()
    registry.add(Handler(api_of(schema), handle))
    broker.services.registry = registry
    for member_id, error_code in (("good", 0), ("bad", InvalidRequest.code)):
        request = schema.Request(group_id="g", generation_id=1, member_id=member_id)
        answer = broker.dispatcher.dispatch(broker.connection, frame_of(request, 4))
        assert isinstance(answer, Delayed)
        assert answer.keeps_frame
        assert not answer.is_done
        broker.clock.advance(0)
        assert Pending(api_of(schema), 4, answer).answer().error_code == error_code
