"""Group commit: one sync for a turn, the next one for what came while it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from minibroker.background import Background, InlineBackground
from minibroker.clock import ManualClock
from minibroker.dispatch.flush import FlushFailures, FlushQueue
from minibroker.errors import KafkaStorageError
from minibroker.log.partition_log import PartitionLog


class SlowBackground(InlineBackground):
    """Work is done when the test says so."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.submitted.append((work, done))

    def finish(self) -> None:
        work, done = self.submitted.pop(0)
        done(work())


class Log:
    """As much of a log as a flush needs; it is its own flusher and its own flush."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.steps: list[str] = []

    @property
    def flusher(self) -> Log:
        return self

    def begin_flush(self) -> Log:
        self.steps.append("begin")
        return self

    def run(self) -> None:
        self.steps.append("run")
        if self.fails:
            raise OSError(5, "Input/output error")

    def end_flush(self, flush: Log, error: BaseException | None) -> None:
        """As Flusher's: only what the file system says is an answer."""
        self.steps.append("end")
        if isinstance(error, OSError):
            raise KafkaStorageError(str(error))
        if error is not None:
            raise error


class Fixture:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.background = SlowBackground()
        self.queue = FlushQueue(self.clock, cast("Background", self.background))
        self.done: list[tuple[str, FlushFailures]] = []

    def flush(self, name: str, *logs: Log) -> None:
        self.queue.flush(cast("list[PartitionLog]", logs), lambda failures: self.done.append((name, failures)))


def test_one_sync_for_all_of_a_turn_and_another_for_the_next() -> None:
    fixture, log = Fixture(), Log()
    fixture.flush("a", log)
    fixture.flush("b", log)
    assert log.steps == []
    fixture.clock.advance(0)
    fixture.flush("c", log)
    fixture.flush("d", log)
    fixture.clock.advance(0)
    assert (log.steps, len(fixture.background.submitted)) == (["begin"], 1)
    fixture.background.finish()
    assert [name for name, _ in fixture.done] == ["a", "b"]
    assert log.steps == ["begin", "run", "end", "begin"]
    fixture.background.finish()
    assert [name for name, _ in fixture.done] == ["a", "b", "c", "d"]
    fixture.flush("e", log)
    fixture.clock.advance(0)
    fixture.background.finish()
    assert [name for name, _ in fixture.done][-1] == "e"


def test_failing_log_does_not_affect_others() -> None:
    fixture, bad, good = Fixture(), Log(fails=True), Log()
    fixture.flush("a", bad, good)
    fixture.clock.advance(0)
    fixture.background.finish()
    ((_, failures),) = fixture.done
    assert [log is bad for log in cast("dict[Any, KafkaStorageError]", failures)] == [True]
    assert good.steps == ["begin", "run", "end"]


def test_a_worker_that_died_fails_them_all() -> None:
    fixture, log = Fixture(), Log()
    fixture.flush("a", log)
    fixture.clock.advance(0)
    _, done = fixture.background.submitted.pop()
    done(MemoryError())
    ((_, failures),) = fixture.done
    assert len(failures) == 1


def test_many_logs_are_synced_in_groups_and_answered_once() -> None:
    """Each begun flush holds descriptors: a thousand partitions must not need a thousand of them."""
    fixture = Fixture()
    logs = [Log(fails=index in {3, 990}) for index in range(1000)]
    fixture.flush("a", *logs)
    fixture.clock.advance(0)
    while fixture.background.submitted:
        assert fixture.done == []
        assert sum(log.steps == ["begin"] for log in logs) <= 64
        fixture.background.finish()
    assert all(log.steps == ["begin", "run", "end"] for log in logs)
    ((name, failures),) = fixture.done
    assert name == "a"
    assert {id(log) for log in failures} == {id(logs[3]), id(logs[990])}


def test_all_callbacks_run_if_one_fails() -> None:
    fixture, log = Fixture(), Log()

    def stumble(_: FlushFailures) -> None:
        raise KafkaStorageError("at what it heard")

    fixture.flush("a", log)
    fixture.queue.flush(cast("list[PartitionLog]", [log]), stumble)
    fixture.flush("b", log)
    fixture.clock.advance(0)
    with pytest.raises(KafkaStorageError):
        fixture.background.finish()
    assert [name for name, _ in fixture.done] == ["a", "b"]
    fixture.flush("c", log)
    fixture.clock.advance(0)
    fixture.background.finish()
    assert [name for name, _ in fixture.done] == ["a", "b", "c"]
