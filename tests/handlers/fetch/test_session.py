"""Fetch sessions: KIP-227's table, its eviction, and what an incremental answer leaves out."""

from __future__ import annotations

from itertools import count, pairwise

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster import partition as cluster_partition
from minibroker.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch, KafkaError
from minibroker.handlers.fetch import session as fetch_sessions
from minibroker.handlers.fetch.session import EVICTION_MS, FetchSessionCache, PartitionAnswer
from minibroker.schemas.k01_fetch import ForgottenTopic, Partition, PartitionResult, Request, Topic
from minibroker.wire.schema import NIL_UUID
from tests.support.compiled import skip_if_compiled


def cache(slots: int = 1000, clock: ManualClock | None = None) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(clock or ManualClock(), slots, lambda: next(ids))


def request(session_id: int, epoch: int, partitions: dict[int, int] | None = None, forget: list[int] | None = None) -> Request:
    """`partitions`: index -> fetch offset."""
    requested_partitions = [
        Partition(partition=index, fetch_offset=offset, partition_max_bytes=1) for index, offset in (partitions or {}).items()
    ]
    return Request(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[Topic(topic="orders", partitions=requested_partitions)] if requested_partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=forget)] if forget else [],
    )


def result(index: int, *, records: bytes = b"", high_watermark: int = 5, log_start_offset: int = 0, error_code: int = 0) -> PartitionAnswer:
    return "orders", PartitionResult(
        partition_index=index,
        error_code=error_code,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def ask(sessions: FetchSessionCache, wanted: Request, **changes: PartitionAnswer) -> tuple[int, list[int]]:
    """Serve a request, with nothing new in partitions without a result: (session id, indexes that are answered)."""
    context = sessions.context(wanted, uses_topic_ids=False)
    results = [changes.get(f"p{requested.partition}", result(requested.partition)) for _, requested in context.partitions()]
    session_id, response = context.answer(results)
    return session_id, [answer.partition_index for _, answer in response]


def test_sessionless_fetch_returns_everything() -> None:
    sessions = cache()
    assert ask(sessions, request(0, -1, {0: 0, 1: 0})) == (0, [0, 1])
    assert len(sessions) == 0


def test_session_lifecycle() -> None:
    sessions = cache()
    assert ask(sessions, request(0, 0, {0: 0, 1: 0})) == (1, [0, 1])
    assert ask(sessions, request(1, 1)) == (1, [])
    assert ask(sessions, request(1, 2), p1=result(1, high_watermark=6)) == (1, [1])
    assert ask(sessions, request(1, 3), p1=result(1, high_watermark=6)) == (1, [])
    assert ask(sessions, request(1, -1)) == (0, [])
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, request(1, 4))


def test_changed_partitions_are_returned() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0}))
    for epoch, (news, is_news) in enumerate(
        [
            (result(0), False),
            (result(0, records=b"batch"), True),
            (result(0, log_start_offset=3), True),
            (result(0, log_start_offset=3), False),
            (result(0, error_code=3, high_watermark=-1, log_start_offset=-1), True),
            (result(0, error_code=3, high_watermark=-1, log_start_offset=-1), True),
            (result(0), True),  # the error is gone
            (result(0), False),
        ],
        start=1,
    ):
        assert ask(sessions, request(1, epoch), p0=news) == (1, [0] if is_news else []), epoch


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0, 1: 0}))
    context = sessions.context(request(1, 1, {1: 7, 2: 3}, forget=[0]), uses_topic_ids=False)
    assert [(requested.partition, requested.fetch_offset) for _, requested in context.partitions()] == [(1, 7), (2, 3)]


def test_served_partition_moves_to_the_end_of_the_line() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0, 1: 0, 2: 0}))
    ask(sessions, request(1, 1), p0=result(0, records=b"batch"))
    context = sessions.context(request(1, 2), uses_topic_ids=False)
    assert [requested.partition for _, requested in context.partitions()] == [1, 2, 0]


def test_session_may_return_to_an_earlier_offset() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 100}))
    context = sessions.context(request(1, 1, {0: 5}), uses_topic_ids=False)
    assert [requested.fetch_offset for _, requested in context.partitions()] == [5]


def test_forgetting_all_partitions_closes_the_session() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0}))
    assert ask(sessions, request(1, 1, forget=[0])) == (0, [])
    assert len(sessions) == 0


def test_new_session_replaces_the_old_one() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0}))
    assert ask(sessions, request(1, 0, {0: 0})) == (2, [0])
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, request(1, 1))


@pytest.mark.parametrize(
    ("session_id", "epoch", "uses_topic_ids", "error"),
    [
        (9, 1, False, FetchSessionIdNotFound),
        (0, 1, False, FetchSessionIdNotFound),
        (1, 2, False, InvalidFetchSessionEpoch),
        (1, -5, False, InvalidFetchSessionEpoch),
        (1, 1, True, FetchSessionTopicIdError),
    ],
)
def test_errors(session_id: int, epoch: int, uses_topic_ids: bool, error: type[KafkaError]) -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0}))
    with pytest.raises(error):
        sessions.context(request(session_id, epoch), uses_topic_ids=uses_topic_ids)
    assert ask(sessions, request(1, 1)) == (1, [])  # the session is unharmed


def test_overtaken_request_fails_on_answer() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0}))
    parked = sessions.context(request(1, 1), uses_topic_ids=False)
    ask(sessions, request(1, 2))
    with pytest.raises(InvalidFetchSessionEpoch):
        parked.answer([result(0)])


def test_epochs_wrap_to_one() -> None:
    sessions = cache()
    ask(sessions, request(0, 0, {0: 0}))
    sessions._sessions[1].epoch = 2**31 - 1
    ask(sessions, request(1, 2**31 - 1))
    assert ask(sessions, request(1, 1)) == (1, [])


def test_full_cache_opens_no_session() -> None:
    sessions = cache(slots=2)
    assert [ask(sessions, request(0, 0, {0: 0}))[0] for _ in range(3)] == [1, 2, 0]
    assert ask(cache(slots=0), request(0, 0, {0: 0}))[0] == 0


def test_total_number_of_partitions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_if_compiled()
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    clock = ManualClock()
    sessions = cache(clock=clock)
    assert ask(sessions, request(0, 0, dict.fromkeys(range(11), 0))) == (0, list(range(11)))  # too large by itself: no session
    assert ask(sessions, request(0, 0, dict.fromkeys(range(6), 0)))[0] == 1
    assert ask(sessions, request(0, 0, dict.fromkeys(range(5), 0)))[0] == 0  # six are held
    assert ask(sessions, request(0, 0, dict.fromkeys(range(4), 0)))[0] == 2
    assert ask(sessions, request(2, 1, {0: 7, 1: 7}))[0] == 2  # changes take no room
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, request(2, 2, {4: 0}))
    assert len(sessions) == 1
    assert ask(sessions, request(1, 1, forget=[0, 1, 2]))[0] == 1
    assert ask(sessions, request(0, 0, dict.fromkeys(range(7), 0)))[0] == 3  # what was forgotten and closed is free again
    clock.advance(EVICTION_MS + 1)
    assert ask(sessions, request(0, 0, dict.fromkeys(range(10), 0)))[0] == 4  # those that are not used any more make room
    assert len(sessions) == 1


def test_least_recently_used_session_is_evicted() -> None:
    clock = ManualClock()
    sessions = cache(2, clock)
    ask(sessions, request(0, 0, {0: 0}))
    ask(sessions, request(0, 0, {0: 0}))
    ask(sessions, request(1, 1))
    clock.advance(EVICTION_MS + 1)
    assert ask(sessions, request(0, 0, {0: 0}))[0] == 3
    ask(sessions, request(1, 2))
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, request(2, 1))


def test_smaller_old_session_is_evicted_for_a_larger_one() -> None:
    clock = ManualClock()
    sessions = cache(2, clock)
    ask(sessions, request(0, 0, {0: 0, 1: 0}))
    ask(sessions, request(0, 0, {0: 0, 1: 0, 2: 0}))
    clock.advance(EVICTION_MS + 1)
    ask(sessions, request(1, 1))
    ask(sessions, request(2, 1))
    assert ask(sessions, request(0, 0, {0: 0, 1: 0}))[0] == 0  # not larger
    assert ask(sessions, request(0, 0, {0: 0, 1: 0, 2: 0}))[0] == 3
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, request(1, 2))


def test_duplicate_partition_uses_its_last_offset() -> None:
    sessions = cache()
    twice = request(0, -1, {0: 1})
    twice.topics.append(request(0, -1, {0: 2}).topics[0])
    context = sessions.context(twice, uses_topic_ids=False)
    assert [requested.fetch_offset for _, requested in context.partitions()] == [2]


def test_large_session_is_released_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_if_compiled()
    clock = ManualClock()
    cache = FetchSessionCache(clock, 10)
    partitions = [Partition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(7)]
    sessions = [cache.open([("orders", each) for each in partitions], False, 0) for _ in range(2)]
    monkeypatch.setattr(fetch_sessions, "AT_ONCE_MAX", 3)
    served = [
        cluster_partition.Partition("orders", NIL_UUID, index, leader_epoch=0, partition_epoch=0, directory_id=NIL_UUID)
        for index in range(7)
    ]
    for session in sessions:
        assert session is not None
        for each in served:
            session.settle("orders", each)
    subscribed = [2 * 7]
    assert sum(len(each._subscribers) for each in served) == subscribed[0]
    for session in sessions:
        assert session is not None
        cache._close(session.session_id)
    assert len(cache) == 0
    while True:
        subscribed.append(sum(len(each._subscribers) for each in served))
        if not subscribed[-1]:
            break
        due, clock._timers[:] = list(clock._timers), []
        assert due, "nothing goes on"
        for _, _, timer in due:
            assert timer.callback is not None
            timer.callback()
    assert max(before - after for before, after in pairwise(subscribed)) <= 4
