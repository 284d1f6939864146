"""Requests leave nothing to the garbage collector: what is done is freed at once. A collection stops every client for milliseconds."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.middleware import later, served, wrapped
from minibroker.dispatch.registry import Handler
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k13_leave_group as k13
from minibroker.schemas import k19_create_topics as k19
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.group_members import begin_sync, enter
from tests.support.transactional_ids import init_producer

ROOT = Path(__file__).parents[2]
Turn = Callable[[BrokerInMemory], object]


def _begin_fetch(broker: BrokerInMemory) -> Pending:
    end_offset = broker.cluster.partition("a", 0).log.log_end_offset
    partition = k01.Partition(partition=0, fetch_offset=end_offset, partition_max_bytes=1 << 20)
    request = k01.Request(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[k01.Topic(topic="a", partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return broker.begin(request, 12)


def fetch_that_is_woken(broker: BrokerInMemory) -> None:
    pending = _begin_fetch(broker)
    broker.append("a", 0, records(1))
    broker.clock.advance(0)
    assert pending.is_done


def fetch_that_waits_it_out(broker: BrokerInMemory) -> None:
    pending = _begin_fetch(broker)
    broker.clock.advance(500)
    assert pending.is_done


def fetch_whose_client_goes(broker: BrokerInMemory) -> None:
    _begin_fetch(broker).in_flight.cancel()
    broker.clock.advance(500)


def fetch_whose_answer_is_changed_and_late(broker: BrokerInMemory) -> None:
    plain = broker.services.registry

    def watch(handler: Handler, ctx: RequestContext, request: object) -> object:
        return served(handler, ctx, request, lambda response: later(ctx.broker.clock, 10, lambda: response))

    broker.services.registry = wrapped(plain, lambda handler: handler.around(partial(watch, handler)))
    broker.dispatcher.serve_from(broker.services)
    pending = _begin_fetch(broker)
    broker.append("a", 0, records(1))
    broker.clock.advance(0)
    was_done = pending.is_done
    broker.clock.advance(10)
    assert (was_done, pending.is_done) == (False, True)
    broker.services.registry = plain
    broker.dispatcher.serve_from(broker.services)


def fetch_session_that_ends(broker: BrokerInMemory) -> None:
    topics = [k01.Topic(topic="a", partitions=[k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])]
    opened = broker.ask(k01.Request(max_wait_ms=0, min_bytes=1, session_epoch=0, topics=topics), 12)
    polled = broker.ask(k01.Request(max_wait_ms=0, min_bytes=1, session_id=opened.session_id, session_epoch=1, topics=[]), 12)
    assert polled.session_id == opened.session_id
    broker.ask(k01.Request(max_wait_ms=0, min_bytes=1, session_id=opened.session_id, session_epoch=-1, topics=[]), 12)


def request_that_fails(broker: BrokerInMemory) -> None:
    topic = k19.Topic(name="too-large", num_partitions=10_001, replication_factor=1, assignments=[], configs=[])
    assert broker.ask(k19.Request(topics=[topic])).topics[0].error_code


def group_of_one(broker: BrokerInMemory) -> None:
    joined = enter(broker, group="once")
    assert not begin_sync(broker, joined, {joined.member_id: b"x"}, group="once").answer().error_code
    broker.ask(k13.Request(group_id="once", members=[k13.Member(member_id=joined.member_id, group_instance_id=None, reason=None)]), 5)
    broker.clock.advance(20_000)


def topic_that_comes_and_goes(broker: BrokerInMemory) -> None:
    broker.cluster.create_topic("new", partition_count=2)
    broker.append("new", 0, records(1))
    broker.cluster.delete_topic("new")
    broker.clock.advance(60_000)


def segments_that_roll_and_go(broker: BrokerInMemory) -> None:
    log = broker.cluster.partition("rolling", 0).log
    for _ in range(3):
        broker.append("rolling", 0, records(1000))
    assert len(log.segments) > 2
    log.advance_log_start_offset(log.log_end_offset)
    assert len(log.segments) == 1
    broker.clock.advance(60_000)


TURNS: dict[str, Turn] = {
    turn.__name__: turn
    for turn in (
        fetch_that_is_woken,
        fetch_that_waits_it_out,
        fetch_whose_client_goes,
        fetch_whose_answer_is_changed_and_late,
        fetch_session_that_ends,
        request_that_fails,
        group_of_one,
        topic_that_comes_and_goes,
        segments_that_roll_and_go,
    )
}


def measure(turn: Turn) -> int:
    """Objects that a second turn leaves to the collector."""
    broker = BrokerInMemory(topics={"a": 1})
    broker.cluster.create_topic("rolling", partition_count=1, configs={"segment.bytes": "17000"})
    broker.services.coordinators.groups.ensure_topic()
    init_producer(broker)
    turn(broker)  # what is made once
    gc.collect()
    gc.disable()
    turn(broker)
    return gc.collect()


@pytest.mark.parametrize("name", TURNS)
def test_nothing_is_left_to_the_collector(name: str) -> None:
    """In a process of its own: threads that tests before have left would leave something, too."""
    ran = subprocess.run([sys.executable, "-m", "tests.dispatch.test_garbage", name], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


def test_an_outcome_that_is_known_at_once_is_freed() -> None:
    class Outcome:
        pass

    kept: list[weakref.ref[Outcome]] = []

    def begin(done: Callable[[Outcome], None]) -> None:
        outcome = Outcome()
        kept.append(weakref.ref(outcome))
        done(outcome)

    assert when_done(begin, lambda outcome: isinstance(outcome, Outcome)) is True
    assert kept[0]() is None


if __name__ == "__main__":
    print(measure(TURNS[sys.argv[1]]))
