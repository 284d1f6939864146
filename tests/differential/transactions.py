"""The run over transactions: a transactional id waits until Kafka has written its markers, so that both are in one state.

Kafka answers CONCURRENT_TRANSACTIONS while it writes markers, and to an InitProducerId that aborts; we do both in one go, so Kafka is asked
again. After every request the state of its transactional id and the ends of all partitions are compared too.
"""

from __future__ import annotations

import time
from typing import Any, Final

from minibroker.errors import ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from minibroker.schemas import (
    k02_list_offsets,
    k10_find_coordinator,
    k22_init_producer_id,
    k65_describe_transactions,
)
from tests.differential.data import Operation
from tests.differential.run import Run
from tests.differential.transaction_data import GROUPS, NAMES, TransactionalProducer, TransactionData
from tests.differential.twins import CLOSED, KAFKAS, OURS, SIDES, Make, Twins
from tests.support.becoming import wait_until

TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {"plain": (2, {}), "one": (1, {}), "compacted": (1, {"cleanup.policy": "compact"})}
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
}
_PASSING: Final = {each.code for each in (ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)}
_PATIENCE_S: Final = 60.0


class TransactionRun(Run):
    """One seed's run."""

    def __init__(self, twins: Twins, seed: int, *, like_kafka: bool = False) -> None:
        super().__init__(twins, seed, like_kafka=like_kafka)
        self.data: TransactionData = TransactionData(self.random, twins, self.data.now_ms)
        twins.free |= {"last_timestamp", "transaction_start_time_ms"}
        twins.append_times_from_ms = self.data.now_ms + 30_000
        self._last_note = ""

    def run(self, count: int) -> None:
        """`count` requests and those that look at what became of them."""
        for name, (partition_count, configs) in TOPICS.items():
            self._create(name, partition_count, configs)
        wait_until(self._has_coordinators, lambda: "coordinators")
        for name in NAMES:
            self._become(name)
        kinds = {
            self._init: 12, self._produce_transactional: 45, self._end: 25, self._add_partitions: 12, self._add_offsets: 8,
            self._txn_offset_commit: 12, self._offset_commit: 8, self._offset_fetch: 12, self._write_txn_markers: 2, self._fetch: 20,
            self._describe_producers: 5, self._list_transactions: 4, self._produce_plain: 5, self._time_out: 1, self._delete_records: 1,
        }  # fmt: skip
        steps, weights = list(kinds), list(kinds.values())
        while sum(self.counts.values()) < count:
            self.random.choices(steps, weights)[0]()

    # -- asking -------------------------------------------------------------------------------------------------------

    def compare(self, operation: Operation) -> tuple[Any, Any] | None:
        self._last_note = f"{operation.schema.__name__.rpartition('.')[2]} v{operation.version} {operation.note}"
        return super().compare(operation)

    def answers(self, operation: Operation) -> tuple[Any, Any]:
        """Both answers; the request is repeated while either has a retriable error."""
        ours, kafkas = (self._patiently(operation, side) for side in SIDES)
        return ours, kafkas

    def _patiently(self, operation: Operation, side: int) -> Any:
        until = time.monotonic() + _PATIENCE_S
        while True:
            request = operation.make(side)
            answer = self.twins.peers[side].ask(operation.schema, operation.version, request, is_answered=operation.is_answered)
            if answer is CLOSED or not _PASSING & error_codes(self.twins.plain(answer, side)) or time.monotonic() > until:
                return answer
            time.sleep(0.02)

    def _settle(self) -> None:
        """Wait until Kafka has written all markers; ours are written when EndTxn answers, unless the broker is to be like Kafka."""
        request = k65_describe_transactions.Request(transactional_ids=list(NAMES))

        def is_settled() -> bool:
            ours, kafkas = self.twins.ask(k65_describe_transactions, 0, lambda _: request)
            late = [*kafkas.transaction_states, *(ours.transaction_states if self.like_kafka else ())]
            return not any(each.transaction_state.startswith("Prepare") for each in late)

        wait_until(is_settled, lambda: f"markers after {self._last_note}")

    def _look(self) -> None:
        """What became of it."""
        note = self._last_note
        self._settle()
        self.compare(self.data.describe_transactions(*NAMES)._replace(note=f"after {note}"))
        for isolation_level in (0, 1):
            topics = [
                k02_list_offsets.Topic(
                    name=name,
                    partitions=[k02_list_offsets.Partition(partition_index=index, timestamp=-1) for index in range(partition_count)],
                )
                for name, partition_count in sorted(self.data.partitions.items())
            ]
            request = k02_list_offsets.Request(replica_id=-1, isolation_level=isolation_level, topics=topics)
            answers = self.compare(Operation(k02_list_offsets, 5, always(request), note=f"{isolation_level} after {note}"))
            if answers is not None and isolation_level == 0:
                for topic in answers[OURS].topics:
                    for each in topic.partitions:
                        self.data.ends[topic.name, each.partition_index] = each.offset

    def _has_coordinators(self) -> bool:
        found = []
        for key_type, keys in ((0, GROUPS), (1, NAMES)):
            request = k10_find_coordinator.Request(coordinator_keys=list(keys), key_type=key_type)
            answers = self.twins.ask(k10_find_coordinator, 6, always(request))
            found += [each.error_code for answer in answers for each in answer.coordinators]
        return not any(found)

    # -- the coordinator ----------------------------------------------------------------------------------------------

    def _become(self, name: str, timeout_ms: int = 600_000) -> TransactionalProducer:
        request = k22_init_producer_id.Request(transactional_id=name, transaction_timeout_ms=timeout_ms)
        answers = self.compare(Operation(k22_init_producer_id, 5, lambda _: request, note=name))
        assert answers is not None
        self._learn_owner(name, answers)
        return self.data.owners[-1]

    def _learn_owner(self, name: str, answers: tuple[Any, Any]) -> None:
        if answers[OURS].error_code or answers[KAFKAS].error_code:
            return
        new = TransactionalProducer(name, self._pair(answers), answers[OURS].producer_epoch)
        for each in self.data.owners:
            each.is_fenced |= each.name == name and each.epoch != new.epoch
        if not any((each.name, each.ids, each.epoch) == (name, new.ids, new.epoch) for each in self.data.owners):  # else it is a retry
            self.data.owners.append(new)

    def _pair(self, answers: tuple[Any, Any]) -> tuple[int, int]:
        ids = answers[OURS].producer_id, answers[KAFKAS].producer_id
        if ids not in self.twins.producer_ids:
            self.twins.learn_producer(ids)
        return ids

    def _init(self) -> None:
        operation, name = self.data.init_transactional()
        answers = self.compare(operation)
        if answers is not None:
            self._learn_owner(name, answers)
        self._ended()
        self._look()

    def _end(self) -> None:
        producer = self.data.producer()
        operation = self.data.end(producer)
        answers = self.compare(operation)
        if answers is not None and operation.version >= 5 and answers[OURS].error_code == 0:
            ids = self._pair(answers)
            if operation.make(OURS).transactional_id == producer.name:
                producer.ids, producer.epoch = ids, answers[OURS].producer_epoch
                producer.next.clear()
        self._ended()
        self._look()

    def _time_out(self) -> None:
        """A transaction is open for too long."""
        name = self.random.choice(NAMES)
        producer = self._become(name, timeout_ms=1_000)
        self.compare(self.data.produce_transactional(producer))
        states: list[str] = []

        def is_over() -> bool:
            request = k65_describe_transactions.Request(transactional_ids=[name])
            answers = self.twins.ask(k65_describe_transactions, 0, lambda _: request)
            states[:] = [answer.transaction_states[0].transaction_state for answer in answers]
            return states[0] == states[1] and states[0] in ("CompleteAbort", "Empty", "CompleteCommit")

        wait_until(is_over, lambda: f"time-out: {states}")
        producer.is_fenced = True
        self._look()
        self.compare(self.data.produce_transactional(producer))
        self.compare(self.data.end(producer))
        self._become(name)
        self._ended()
        self._look()

    def _add_partitions(self) -> None:
        self.compare(self.data.add_partitions())
        self._look()

    def _add_offsets(self) -> None:
        self.compare(self.data.add_offsets())
        self._look()

    def _write_txn_markers(self) -> None:
        self.compare(self.data.write_txn_markers())
        self._ended()
        self._look()

    # -- records ------------------------------------------------------------------------------------------------------

    def _produce_transactional(self) -> None:
        producer = self.data.producer()
        operation = self.data.produce_transactional(producer)
        answers = self.compare(operation)
        if answers is not None and answers[OURS] is not CLOSED:
            names = {ids[OURS]: name for name, ids in self.twins.topic_ids.items()}
            for topic in answers[OURS].responses:
                name = topic.name or names.get(topic.topic_id, "")
                for result in topic.partition_responses:
                    if result.error_code == 0:
                        place = name, result.index
                        producer.next[place] = max(producer.next.get(place, 0), self.data.sent[place])
                        producer.written.add(place)
        self._look()

    def _ended(self) -> None:
        """A transaction of an unknown client may have ended."""
        for each in self.data.owners:
            each.written.clear()

    def _produce_plain(self) -> None:
        self.compare(self.data.produce())
        self._look()

    def _describe_producers(self) -> None:
        self.compare(self.data.describe_producers(self.data.some_places(3)))

    def _list_transactions(self) -> None:
        self.compare(self.data.list_transactions())

    # -- committed offsets --------------------------------------------------------------------------------------------

    def _txn_offset_commit(self) -> None:
        self.compare(self.data.txn_offset_commit())
        self._look()

    def _offset_commit(self) -> None:
        self.compare(self.data.offset_commit())

    def _offset_fetch(self) -> None:
        self.compare(self.data.offset_fetch())


def always(request: Any) -> Make:
    """The same for both sides."""
    return lambda _: request


def error_codes(answer: Any) -> set[int]:
    """All that an answer holds."""
    if isinstance(answer, dict):
        found = {value for key, value in answer.items() if key.endswith("error_code") and isinstance(value, int)}
        return found.union(*(error_codes(value) for value in answer.values()))
    return set().union(*map(error_codes, answer)) if isinstance(answer, list) else set()
