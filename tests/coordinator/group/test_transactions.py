"""Offsets commit with their transaction or not at all, whatever happens to the broker in between."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.log.results import IsolationLevel
from minibroker.schemas import k26_end_txn as k26
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, broker_with_groups, commit, commit_in_transaction, fetch
from tests.support.transactional_ids import init_producer


def end(broker: BrokerInMemory, ids: ProducerIdAndEpoch, *, commit: bool = True, name: str = "payments") -> None:
    request = k26.Request(transactional_id=name, producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=commit)
    assert broker.ask(request, 5).error_code == 0


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
def test_open_transaction_survives_a_restart(clean: bool, is_commit: bool) -> None:
    broker = broker_with_groups({"a": 1})
    commit(broker, {("a", 0): 1})
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 5})

    again = broker.restart(clean=clean)
    assert fetch(again) == {("a", 0): 1}
    assert fetch(again, require_stable=True) == {("a", 0): "error 88"}
    end(again, ids, commit=is_commit)
    for now in (again, again.restart(clean=clean)):
        assert fetch(now, require_stable=True) == {("a", 0): 5 if is_commit else 1}


def test_marker_before_loading_is_applied() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 5})
    again = broker.restart()
    end(again, ids)
    assert fetch(again, require_stable=True) == {("a", 0): 5}


def test_transaction_timeout_aborts_offsets() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker, timeout_ms=1_000)
    commit_in_transaction(broker, ids, {("a", 0): 5})
    broker.clock.advance(20_000)
    assert fetch(broker, [("a", 0)], require_stable=True) == {("a", 0): -1}
    assert commit_in_transaction(broker, ids, {("a", 0): 6}) == [("a", [(0, 47)])]


def test_two_producers_in_one_group() -> None:
    broker = broker_with_groups({"a": 2})
    one, two = init_producer(broker, "one"), init_producer(broker, "two")
    commit_in_transaction(broker, one, {("a", 0): 1, ("a", 1): 1}, transactional_id="one")
    commit_in_transaction(broker, two, {("a", 0): 2}, transactional_id="two")
    end(broker, one, name="one")
    assert fetch(broker, require_stable=True) == {("a", 0): "error 88", ("a", 1): 1}
    end(broker, two, name="two", commit=False)
    assert fetch(broker, require_stable=True) == {("a", 0): 1, ("a", 1): 1}


def test_markers_of_two_producers_in_reverse_order() -> None:
    broker = broker_with_groups({"a": 1})
    one, two = init_producer(broker, "one"), init_producer(broker, "two")
    commit_in_transaction(broker, one, {("a", 0): 1}, transactional_id="one")
    commit_in_transaction(broker, two, {("a", 0): 2}, transactional_id="two")
    end(broker, two, name="two")
    end(broker, one, name="one")
    for now in (broker, broker.restart(clean=False)):
        assert fetch(now) == {("a", 0): 2}


def test_several_groups_and_commits_in_one_transaction() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    commit_in_transaction(broker, ids, {("a", 0): 1})
    commit_in_transaction(broker, ids, {("a", 0): 2})
    commit_in_transaction(broker, ids, {("a", 0): 3}, group="others")
    end(broker, ids)
    assert (fetch(broker), fetch(broker, group="others")) == ({("a", 0): 2}, {("a", 0): 3})


def test_offsets_topic_can_be_fetched() -> None:
    broker = broker_with_groups({"a": 1})
    ids = init_producer(broker)
    commit(broker, {("a", 0): 1})
    commit_in_transaction(broker, ids, {("a", 0): 5})
    log = broker.cluster.partition(TOPIC, 0).log
    assert (log.last_stable_offset, log.log_end_offset) == (1, 2)
    end(broker, ids, commit=False)
    assert (log.last_stable_offset, log.log_end_offset) == (3, 3)
    assert [each.first_offset for each in log.aborted_transactions(0, 2)] == [1]
    assert log.read(0, 10_000, isolation=IsolationLevel.READ_COMMITTED)


def test_compaction_keeps_pending_offsets() -> None:
    broker = broker_with_groups({"a": 3}, {"log.cleaner.min.cleanable.ratio": "0", "offsets.topic.segment.bytes": "1048576"})
    ids = init_producer(broker)
    for offset in range(20):
        commit(broker, {("a", 0): offset})
        commit_in_transaction(broker, ids, {("a", 1): offset}, metadata="x" * 4000)
        end(broker, ids, commit=offset % 2 == 0)
        ids = ids._replace(producer_epoch=ids.producer_epoch + 1)
    broker.cluster.partition(TOPIC, 0).log._roll()  # the segment that grows is not compacted, nor one with an open transaction
    commit_in_transaction(broker, ids, {("a", 2): 7})
    expected: dict[tuple[str, int], Any] = {("a", 0): 19, ("a", 1): 18}
    assert fetch(broker) == expected

    size = broker.cluster.partition(TOPIC, 0).log.segments.size
    broker.cluster.logs.cleaner.compact([broker.cluster.partition(TOPIC, 0).log])
    broker.clock.advance(1_000)
    assert broker.cluster.partition(TOPIC, 0).log.segments.size < size // 2
    again = broker.restart(clean=False)
    assert fetch(again) == expected
    assert fetch(again, [("a", 2)], require_stable=True) == {("a", 2): "error 88"}
    end(again, ids)
    assert fetch(again) == expected | {("a", 2): 7}
