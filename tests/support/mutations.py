"""Brokers that are broken in one way each: what a test that finds faults by chance must find.

`mutated(name)` breaks those that BrokerProcess starts meanwhile, each in its own process before it begins: no other broker, and no file.
Each function below breaks one thing; its name says what is so then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from minibroker.coordinator.group.offsets import Offsets
from minibroker.coordinator.group.store import StoredShard
from minibroker.coordinator.transaction import states
from minibroker.coordinator.transaction.marking import Marking
from minibroker.handlers.fetch.session import FetchSession
from minibroker.log.loading import LoadedLog, Loader
from minibroker.log.partition_log import PartitionLog
from minibroker.log.producer_state import Producer, ProducerState
from minibroker.log.results import Appended
from minibroker.records.control import ControlType


class Mutation(NamedTuple):
    """A way to be wrong."""

    apply: Callable[[], None]
    shows_as: str  #: a regular expression for what the model of tests/support/fault_model.py says of it


MUTATIONS: dict[str, Mutation] = {}


def mutation(shows_as: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a function under its name, in words."""

    def enter(function: Callable[[], None]) -> Callable[[], None]:
        MUTATIONS[function.__name__.replace("_", " ")] = Mutation(function, shows_as)
        return function

    return enter


def apply(name: str) -> None:
    """Break this process's brokers."""
    MUTATIONS[name].apply()


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Brokers in processes of their own are broken that start meanwhile."""
    start = "minibroker.testing.broker_process._START"
    words = f"import sys; sys.path[:] = sys.argv.pop().split('\\n'); from tests.support.mutations import apply; apply({name!r}); "
    with patch(start, words + "from minibroker.testing.child import main; main()"):
        yield


def _put(owner: Any, name: str, changed: Any) -> None:
    setattr(owner, name, changed)


def _some(of: int = 20) -> Callable[[], bool]:
    """True for one call of so many: a broker that is wrong each time would be of no use to anybody."""
    calls = itertools.count(1)
    return lambda: next(calls) % of == 0


# Idempotence


@mutation(r"is there \d times")
def what_is_sent_again_is_written_again() -> None:
    _put(ProducerState, "check", lambda self, batch: None)


@mutation(r"is there \d times|is lost")
def what_is_sent_again_is_out_of_order() -> None:
    _put(Producer, "duplicate_of", lambda self, batch: None)


@mutation(r"is there \d times|is lost|, before ")
def sequences_may_have_gaps() -> None:
    _put(Producer, "_check_sequence", lambda self, batch: None)


@mutation(r"is there \d times|is lost|, before ")
def producers_are_forgotten_at_a_start() -> None:
    load = Loader.load

    def forgetful(self: Loader, **more: Any) -> LoadedLog:
        loaded = load(self, **more)
        producers = loaded.producers.producers
        for producer_id in [each for each, known in producers.items() if known.current_txn_first_offset < 0]:
            del producers[producer_id]
        return loaded

    _put(Loader, "load", forgetful)


# Writing


@mutation("is lost")
def some_that_is_acknowledged_is_not_written() -> None:
    is_lost, append = _some(), PartitionLog.append

    def lossy(self: PartitionLog, data: memoryview, **more: Any) -> Appended:
        if is_lost():
            return Appended(self.log_end_offset, self.log_end_offset, -1, self.log_start_offset)
        return append(self, data, **more)

    _put(PartitionLog, "append", lossy)


@mutation("it was acknowledged at")
def some_offsets_that_are_told_are_wrong() -> None:
    is_wrong, append = _some(), PartitionLog.append

    def wrong(self: PartitionLog, data: memoryview, **more: Any) -> Appended:
        appended = append(self, data, **more)
        return appended._replace(base_offset=appended.base_offset + 1) if is_wrong() else appended

    _put(PartitionLog, "append", wrong)


# Transactions


@mutation("of an aborted transaction")
def nobody_is_told_of_aborted_transactions() -> None:
    _put(PartitionLog, "aborted_transactions", lambda self, first_offset, last_offset: [])


@mutation("read what nobody may")
def the_last_stable_offset_is_the_high_watermark() -> None:
    def show(self: PartitionLog, end_offset: int, oldest_transaction: int | None) -> None:
        self.high_watermark = self.last_stable_offset = end_offset
        self.first_unstable_offset = None

    _put(PartitionLog, "_show", show)


@mutation("whose producer was fenced|of an aborted transaction")
def old_epochs_may_go_on() -> None:
    check, owned = Producer.check, states._owned

    def believing(self: Producer, batch: Any, **more: Any) -> None:
        if batch.producer_epoch >= self.producer_epoch:
            check(self, batch, **more)

    _put(Producer, "check", believing)
    _put(
        states,
        "_owned",
        lambda current, ids: owned(current, ids if current is None else ids._replace(producer_epoch=current.producer_epoch)),
    )


@mutation("whose producer was fenced|of an aborted transaction")
def a_new_owner_fences_nobody() -> None:
    taken_over = states._taken_over

    def same_epoch(current: Any, ids: Any, *more: Any) -> states.Decision:
        return taken_over(current, ids._replace(producer_epoch=max(current.producer_epoch, 0)), *more)

    _put(states, "_taken_over", same_epoch)


@mutation("of a committed transaction")
def one_marker_of_a_commit_is_an_abort() -> None:
    is_wrong, mark = _some(), Marking._mark

    def wrong(self: Marking, place: Any) -> None:
        kept = self._marker
        if is_wrong():
            self._marker = kept._replace(control_type=ControlType.ABORT)
        mark(self, place)
        self._marker = kept

    _put(Marking, "_mark", wrong)


@mutation("of a committed transaction|of an aborted transaction")
def one_marker_is_left_out() -> None:
    is_left_out, mark = _some(5), Marking._mark

    def leaving_out(self: Marking, place: Any) -> None:
        if not is_left_out():
            mark(self, place)

    _put(Marking, "_mark", leaving_out)


# Offsets of groups


@mutation("the offset of")
def offsets_of_transactions_are_lost() -> None:
    end = Offsets.end_transaction
    _put(Offsets, "end_transaction", lambda self, producer_id, *, is_commit: end(self, producer_id, is_commit=False))


@mutation("the offset of")
def offsets_of_aborted_transactions_count() -> None:
    end = Offsets.end_transaction
    _put(Offsets, "end_transaction", lambda self, producer_id, *, is_commit: end(self, producer_id, is_commit=True))


@mutation("the group has")
def committed_offsets_are_lost() -> None:
    commit = StoredShard.commit

    def forgetful(self: StoredShard, group_id: str, offsets: Any, now_ms: int, ids: Any) -> Any:
        return commit(self, group_id, offsets, now_ms, ids) if ids.producer_id >= 0 else None

    _put(StoredShard, "commit", forgetful)


@mutation("the group has|read again|the offset of")
def committed_offsets_are_forgotten_at_a_start() -> None:
    _put(StoredShard, "replay_batch", lambda self, batch: None)


# Reading


@mutation("did not read")
def a_fetch_session_misses_what_moves() -> None:
    is_missed, moved = _some(3), FetchSession.moved

    def missing(self: FetchSession, told: Any, *, is_lost: bool) -> bool:
        return True if is_missed() else moved(self, told, is_lost=is_lost)

    _put(FetchSession, "moved", missing)
