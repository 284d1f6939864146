"""The transaction coordinator: requests become decisions (states.py), and decisions become steps (steps.py).

A request runs synchronously from the decision to the last marker, unless the logs must be synced or
the markers do not fit into a turn. Therefore clients rarely get CONCURRENT_TRANSACTIONS. An
InitProducerId that finds an open transaction aborts it and continues. Kafka answers that code
instead, and the client retries. An end is answered when the transaction is complete. If a partition
is offline, it is answered when the outcome is safe, as in Kafka. The next transaction of the id
then has to wait.

`done(outcome)` is called once, before the call returns if nothing has to wait. Errors are outcomes.
Every call may end with NotCoordinator, CoordinatorLoadInProgress (store.py), or InvalidRequest for
an empty id.

`admit` is for Produce: the transaction of a transactional batch must include its partition, which
the coordinator checks or adds (KIP-890).

    Produce    a partition that the transaction does not include
    to 10      INVALID_TXN_STATE
    11         TRANSACTION_ABORTABLE
    from 12    is added by this request

With transaction.partition.verification.enable=false versions to 11 are not checked, as in Kafka:
their records may stay open until the next start ends the transaction. A partition where this
producer has an open transaction needs no check. Producers get the coordinator's errors as from
Apache Kafka: PRODUCER_FENCED as INVALID_PRODUCER_EPOCH, and while the coordinator is not available
NOT_ENOUGH_REPLICAS, which every client retries without looking for another leader.

Source: TransactionCoordinator, AddPartitionsToTxnManager, ReplicaManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import TRANSACTION_STATE_TOPIC, Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.transaction import states
from minibroker.coordinator.transaction.marking import MARKERS_A_TURN, Orphan, Sync, find_orphans
from minibroker.coordinator.transaction.records import EPOCH_BUMP_VERSION, ProducerIdAndEpoch, TopicPartition, TransactionMetadata
from minibroker.coordinator.transaction.steps import Steps
from minibroker.coordinator.transaction.store import StatePartition, StateStore
from minibroker.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
)
from minibroker.log.partition_log import PartitionLog

IDS_A_TURN: Final = 50  #: ids that time out or expire in one turn of the loop

Outcome = ProducerIdAndEpoch | KafkaError
Done = Callable[[Outcome], None]
Decide = Callable[[TransactionMetadata | None], states.Decision]

_LOG = logging.getLogger(__name__)


class TransactionCoordinator:
    """The coordinator of all transactional ids.

    `sync(logs, done)` calls `done` with the logs that could not be synced.
    """

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: Sync) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._steps = Steps(cluster, clock, sync)
        self.timed_out = 0  #: transactions since the start
        self._store = StateStore(cluster, config, clock, on_loaded=self._resume, on_gone=self._steps.forget)
        self._timers: dict[str, Timer] = {}
        self._topic_at_start: Topic | None = None  #: the topic that existed when the broker started

    # Life

    def start(self, *, ends_orphans: bool = False) -> None:
        """Load the topic, finish decided transactions, and start the timers.

        `ends_orphans`: also end orphans, when a broker starts.
        """
        self._later("time-outs", self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self._look_for_timed_out)
        self._later("expiry", self._config.transaction_remove_expired_transaction_cleanup_interval_ms, self._look_for_expired)
        if ends_orphans:
            self._topic_at_start = self._cluster.topics.get(TRANSACTION_STATE_TOPIC)
            if self._topic_at_start is None:
                self._look_for_orphans([])
        self._store.follow_topic()

    def stop(self) -> None:
        """Stop. The next start continues."""
        for timer in self._timers.values():
            timer.cancel()
        self._store.stop()
        self._steps.stop()

    def ensure_topic(self) -> None:
        """Create `__transaction_state` if it does not exist; KafkaError.

        Until then every request is NOT_COORDINATOR.
        """
        self._store.ensure_topic()

    # Requests

    def init_producer_id(self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, done: Done) -> None:
        """Let a producer take over an id. An open transaction is aborted first."""

        def decide(current: TransactionMetadata | None) -> states.Decision:
            states.check_timeout(timeout_ms, self._config.transaction_max_timeout_ms)
            decision = states.init_producer_id(
                current,
                transactional_id,
                timeout_ms,
                expected,
                now_ms=self._clock.now_ms(),
                transaction_version=self.transaction_version,
                allocate_producer_id=self._cluster.metadata.allocate_producer_id,
            )
            if current is not None and decision.after is not None and decision.after.state.is_prepared:
                _LOG.info(
                    "transactional id %s: a new producer fences producer id %d with epoch %d, whose open transaction is aborted",
                    transactional_id,
                    *current.ids,
                )
            return decision

        def aborted(outcome: Outcome) -> None:
            if isinstance(outcome, ConcurrentTransactions) and self._is_idle(transactional_id):
                self._decide(transactional_id, decide, done)
            else:
                done(outcome)

        self._decide(transactional_id, decide, aborted)

    def add_partitions(
        self,
        transactional_id: str,
        ids: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        done: Done,
        *,
        client_transaction_version: int = 0,
    ) -> None:
        """Add partitions to a transaction, or start one with them.

        Callers use the outcome only if it is an error.
        """
        self._decide(transactional_id, lambda current: self._add(current, ids, partitions, client_transaction_version), done)

    def end_transaction(
        self, transactional_id: str, ids: ProducerIdAndEpoch, *, commit: bool, client_transaction_version: int, done: Done
    ) -> None:
        """Commit or abort.

        The outcome has the ids for the next transaction, or NO_IDS if the client's version is below
        2.
        """

        def decide(current: TransactionMetadata | None) -> states.Decision:
            return states.end_transaction(
                current,
                ids,
                commit=commit,
                now_ms=self._clock.now_ms(),
                client_transaction_version=client_transaction_version,
                allocate_producer_id=self._cluster.metadata.allocate_producer_id,
            )

        self._decide(transactional_id, decide, done)

    def verify_partitions(
        self, transactional_id: str, ids: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, type[KafkaError] | None]:
        """Return None for each partition that the transaction includes, otherwise TransactionAbortable.

        Raises KafkaError.
        """
        return states.verify_partitions(self.get(transactional_id), ids, partitions)

    def add_now(self, transactional_id: str, ids: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]) -> PartitionLog | None:
        """Add partitions for a client of KIP-890, whose data is in the same request: the step takes effect immediately.

        Returns the log that must be synced before the answer; None if nothing was written or no
        sync is needed. Raises KafkaError.
        """
        stored = self._partition_of(transactional_id)
        decision = self._add(stored.transactions.settled(transactional_id), ids, partitions, EPOCH_BUMP_VERSION)
        if decision.after is None:
            return None
        log = self._steps.take_now(stored, decision.after)
        return log if log.wants_sync else None

    def admit(self, transactional_id: str, ids: ProducerIdAndEpoch, partition: TopicPartition, *, may_add: bool) -> PartitionLog | None:
        """Check whether a transaction includes `partition`; with `may_add` (from Produce 12 and TxnOffsetCommit 5 on) add it.

        Returns the same as `add_now`. Raises KafkaError, for example TransactionAbortable.
        """
        partitions = frozenset((partition,))
        if may_add:
            return self.add_now(transactional_id, ids, partitions)
        refusal = self.verify_partitions(transactional_id, ids, partitions)[partition]
        if refusal is not None:
            raise refusal
        return None

    # Look-ups

    @property
    def transaction_version(self) -> int:
        """The finalized transaction.version: 0 to 2."""
        return self._cluster.transaction_version

    @property
    def verifies_partitions(self) -> bool:
        """Whether writes of clients older than KIP-890 are checked."""
        return self._config.transaction_partition_verification_enable

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the state of an id; None for an unknown one. Raises KafkaError."""
        return self._partition_of(transactional_id).transactions.get(transactional_id)

    def all(self) -> list[TransactionMetadata]:
        """Return the states of all ids that are served; CoordinatorLoadInProgress while more are being loaded."""
        found: list[TransactionMetadata] = []
        for stored in self._store.current():
            try:
                stored.check()
            except NotCoordinator:
                continue
            found += stored.transactions.all()
        return found

    def _partition_of(self, transactional_id: str) -> StatePartition:
        return self._store.partition_of(states.check_transactional_id(transactional_id))

    def _is_idle(self, transactional_id: str) -> bool:
        try:
            current = self.get(transactional_id)
        except KafkaError:  # its log went offline after the previous step
            return False
        return current is not None and current.state.is_idle

    # Steps

    def _add(
        self,
        current: TransactionMetadata | None,
        ids: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        client_transaction_version: int,
    ) -> states.Decision:
        return states.add_partitions(
            current, ids, partitions, now_ms=self._clock.now_ms(), client_transaction_version=client_transaction_version
        )

    def _decide(self, transactional_id: str, decide: Decide, done: Done) -> None:
        try:
            stored = self._partition_of(transactional_id)
            decision = decide(stored.transactions.settled(transactional_id))
        except KafkaError as error:
            done(error)
            return
        answer: Outcome = decision.answer if decision.error is None else decision.error()
        if decision.after is None:
            done(answer)
        else:
            self._steps.take(stored, decision.after, lambda failure: done(answer if failure is None else failure))

    def _resume(self) -> None:
        """Finish transactions that were decided before this start.

        Those that clients decided during the load are already in progress.
        """
        for stored in self._store.partitions:
            for metadata in stored.transactions.unfinished():
                if not self._steps.is_ending(metadata.transactional_id):
                    _LOG.info("transactional id %s: completing its transaction (%s)", metadata.transactional_id, metadata.state.kafka_name)
                    self._steps.finish(stored, metadata, _ignore_outcome, is_resumed=True)
        if self._store.is_complete and self._topic_at_start is self._store.topic:
            self._look_for_orphans(self.all())

    def _look_for_orphans(self, known: list[TransactionMetadata]) -> None:
        partitions = [partition for topic in self._cluster.topics.values() for partition in topic.partitions]
        self._end_orphans(list(find_orphans(partitions, known)))

    def _end_orphans(self, orphans: list[Orphan]) -> None:
        """End some orphans in each turn, without a sync: if a marker is lost, the next start finds the same orphan."""
        for each in orphans[:MARKERS_A_TURN]:
            each.end()
        if len(orphans) > MARKERS_A_TURN:
            self._later("more orphans", 0, lambda: self._end_orphans(orphans[MARKERS_A_TURN:]))

    # Timers

    def _look_for_timed_out(self) -> None:
        now_ms = self._clock.now_ms()
        self._in_turns(
            "time-outs",
            [
                (stored, each)
                for stored in self._store.usable()
                for each in states.timed_out(stored.transactions.all_settled(), now_ms=now_ms)
            ],
            lambda each: self._time_out(each, now_ms),
        )
        self._later("time-outs", self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self._look_for_timed_out)

    def _time_out(self, metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
        after = states.fence(
            metadata,
            now_ms=now_ms,
            transaction_version=self.transaction_version,
            allocate_producer_id=self._cluster.metadata.allocate_producer_id,
        )
        self.timed_out += 1
        _LOG.warning(
            "transactional id %s: its transaction has been open for %d ms, longer than the producer's transaction.timeout.ms %d: "
            "it is aborted, and producer id %d with epoch %d is fenced",
            metadata.transactional_id,
            now_ms - metadata.start_timestamp_ms,
            metadata.timeout_ms,
            *metadata.ids,
        )
        return after

    def _look_for_expired(self) -> None:
        now_ms, expiration_ms = self._clock.now_ms(), self._config.transactional_id_expiration_ms
        self._in_turns(
            "expired",
            [
                (stored, each)
                for stored in self._store.usable()
                for each in states.expired(stored.transactions.all_settled(), now_ms=now_ms, expiration_ms=expiration_ms)
            ],
            states.expire,
        )
        self._later("expiry", self._config.transaction_remove_expired_transaction_cleanup_interval_ms, self._look_for_expired)

    def _in_turns(
        self, name: str, due: list[tuple[StatePartition, TransactionMetadata]], step: Callable[[TransactionMetadata], TransactionMetadata]
    ) -> None:
        """Apply `step` to each state that is `due`, unless the state has changed in the meantime."""
        for stored, metadata in due[:IDS_A_TURN]:
            if stored.transactions.get(metadata.transactional_id) is metadata:
                try:
                    after = step(metadata)
                except KafkaError as error:  # no new producer id is available
                    _LOG.error(
                        "transactional id %s, %s: no producer id is available: %s (will retry)", metadata.transactional_id, name, error
                    )
                    continue
                self._steps.take(stored, after, _ignore_outcome)
        if len(due) > IDS_A_TURN:
            self._later(f"more {name}", 0, lambda: self._in_turns(name, due[IDS_A_TURN:], step))

    def _later(self, name: str, delay_ms: int, work: Callable[[], None]) -> None:
        self._timers[name] = self._clock.call_later_ms(delay_ms, work)


def _ignore_outcome(_: object = None) -> None:
    """Ignore the outcome of a step that no request waits for.

    Failed steps are repeated by the next timer.
    """


ABORTABLE_SINCE: Final = 11
ADDED_SINCE: Final = 12

_UNAVAILABLE: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class Admission(NamedTuple):
    """The result of an admission."""

    refused: dict[TopicPartition, KafkaError]  #: the errors of rejected batches; all others may be appended
    log: PartitionLog | None = None  #: the coordinator's log, if it must be synced before the producer gets its answer


ALL: Final = Admission({})


def admit(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    ids: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    *,
    produce_version: int,
) -> Admission:
    """Add `partitions` to a transaction, or check that it includes them, depending on the version of Produce."""
    try:
        if produce_version >= ADDED_SINCE:
            return Admission({}, coordinator.add_now(transactional_id, ids, partitions))
        if not coordinator.verifies_partitions:
            return ALL
        verified = coordinator.verify_partitions(transactional_id, ids, partitions)
    except KafkaError as error:
        answer = _producer_error(error, produce_version)
        return Admission(dict.fromkeys(partitions, answer))
    return Admission({each: _producer_error(error(), produce_version) for each, error in verified.items() if error is not None})


def _producer_error(error: KafkaError, produce_version: int) -> KafkaError:
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch()
    if isinstance(error, InvalidTxnState) or (isinstance(error, TransactionAbortable) and produce_version < ABORTABLE_SINCE):
        return InvalidTxnState("Partition was not added to the transaction")
    if isinstance(error, _UNAVAILABLE) or (isinstance(error, ConcurrentTransactions) and produce_version < ADDED_SINCE):
        return NotEnoughReplicas(f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}")
    return error
