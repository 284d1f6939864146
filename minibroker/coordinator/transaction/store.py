"""`__transaction_state`: each transactional id is in the partition that its hash selects.

A partition of the topic is read when the broker starts or the topic is created, and kept in memory
from then on:

    loading --its records are read--> loaded                          before: COORDINATOR_LOAD_IN_PROGRESS, which clients retry
       |--its log is offline or invalid--> unusable until the next start: NOT_COORDINATOR, which clients retry

Reading is spread over turns of the loop. A start with many ids serves other requests in between.

Invariant: the states of `TransactionalIds` are in the log. A failed write changes nothing. After a
failed fsync the content of the log is not known, so the log is offline, and its ids are not served.

Source: TransactionStateManager, TransactionLog, pendingState of TransactionMetadata of Apache Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import TRANSACTION_STATE_TOPIC, Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.stored_topic import READ_BYTES, check, partition_of, read_pieces
from minibroker.coordinator.transaction import records
from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.errors import ConcurrentTransactions, CoordinatorLoadInProgress, KafkaError, NotCoordinator, WireError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.builder import build_single
from minibroker.records.record import Record
from minibroker.storage.record_frame import warn_of_unknown_types

BYTES_A_TURN: Final = READ_BYTES  #: 5 ms
DECODED_AT_ONCE: Final = 500  #: ids
BYTES_AT_START: Final = 512 * 1024  #: before anything is served: 2,000 ids
_RECORD_BYTES: Final = 140  #: decoding a record is as much work as reading it

_LOG = logging.getLogger(__name__)


class StatePartition:
    """One partition of the topic and its ids. StateStore writes it, except `transactions`."""

    __slots__ = ("_partition", "is_broken", "is_loaded", "transactions")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.transactions = TransactionalIds()
        self.is_loaded = False
        self.is_broken = False  #: its records cannot be read

    @property
    def coordinator_epoch(self) -> int:
        """The epoch in markers, by which a partition detects an old coordinator."""
        return self._partition.leader_epoch

    @property
    def is_online(self) -> bool:
        """Whether its log can be read and written."""
        return self._partition.is_online

    def check(self) -> None:
        """Raise CoordinatorLoadInProgress or NotCoordinator unless the ids are known."""
        if self.is_broken or not self.is_online:
            raise NotCoordinator
        if not self.is_loaded:
            raise CoordinatorLoadInProgress

    def append(self, after: TransactionMetadata, *, now_ms: int, transaction_version: int) -> PartitionLog:
        """Append the record of `after`. Return its log, which may have to be synced; NotCoordinator."""
        key, value = records.encode(after, transaction_version=transaction_version)
        try:
            log = self._partition.log
            self._partition.append_own(build_single(now_ms, key, value))
        except KafkaError as error:
            _LOG.error("could not write the state of transactional id %s: %s", after.transactional_id, error)
            raise NotCoordinator from error
        return log

    def read(self) -> Iterator[tuple[int, list[Record]]]:
        """Yield the records of the log, a piece at a time, and its size in bytes.

        Raises:
            CorruptMessage: A byte is wrong. The batch may be a decision about any transactional id.
            KafkaError: The log cannot be read.
        """
        for size, batches in read_pieces(self._partition):
            for batch in batches:
                check(batch)
            yield size, [record for batch in batches if not batch.is_control for record in decode_records(batch)]


class StateStore:
    """All partitions of the topic. A topic that was deleted and created again is loaded again."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, *, on_loaded: Callable[[], None], on_gone: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._on_loaded = on_loaded  #: called when every readable partition is loaded
        self._on_gone = on_gone  #: called when the topic is replaced or deleted
        self.topic: Topic | None = None  #: the topic of these partitions; written here
        self._loading: Iterator[int] | None = None
        self._timer: Timer | None = None
        self.partitions: list[StatePartition] = []  #: by index; written here

    @property
    def is_complete(self) -> bool:
        """Whether all ids are known."""
        return bool(self.partitions) and len(self.usable()) == len(self.partitions)

    def usable(self) -> list[StatePartition]:
        """The partitions whose ids are known."""
        return [each for each in self.current() if each.is_loaded and each.is_online]

    def current(self) -> list[StatePartition]:
        """The partitions of the present topic."""
        self.follow_topic()
        return self.partitions

    def ensure_topic(self) -> None:
        """Create the topic if it does not exist, with the configs of Apache Kafka; KafkaError."""
        if TRANSACTION_STATE_TOPIC not in self._cluster.topics:
            self._cluster.create_topic(
                TRANSACTION_STATE_TOPIC,
                partition_count=self._config.transaction_state_log_num_partitions,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(self._config.transaction_state_log_min_isr),
                    "segment.bytes": str(self._config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            )
        self.follow_topic()

    def follow_topic(self) -> None:
        """Load the topic if it is not the known one: it was created, deleted, or both."""
        topic = self._cluster.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is self.topic:
            return
        self.stop()
        self.topic = topic
        self.partitions = [StatePartition(each) for each in topic.partitions] if topic is not None else []
        self._loading = self._load()
        self._on_gone()  # answers waiting requests; the clients may retry at once
        self._turn(BYTES_AT_START)

    def stop(self) -> None:
        """Stop loading."""
        self._loading = None
        if self._timer is not None:
            self._timer.cancel()

    def partition_of(self, transactional_id: str) -> StatePartition:
        """Return the partition of an id; CoordinatorLoadInProgress, NotCoordinator."""
        partitions = self.current()
        if not partitions:
            raise NotCoordinator
        found = partitions[partition_of(transactional_id, len(partitions))]
        found.check()
        return found

    def _turn(self, max_bytes: int) -> None:
        if self._loading is None:
            return
        for size in self._loading:
            max_bytes -= size
            if max_bytes <= 0:
                self._timer = self._clock.call_later_ms(0, lambda: self._turn(BYTES_A_TURN))
                return
        self._loading = None
        self._on_loaded()

    def _load(self) -> Iterator[int]:
        """Load one partition after the other. Each step yields its work, as a number of bytes."""
        for index, each in enumerate(self.partitions):
            if not each.is_online:
                continue
            last: dict[bytes | None, bytes | None] = {}  #: values by key, to decode only the last record of each id
            states: dict[str, TransactionMetadata] = {}
            unknown_types: Counter[int] = Counter()
            try:
                for size, piece in each.read():
                    for record in piece:
                        last.pop(record.key, None)
                        last[record.key] = record.value
                    yield size
                latest = iter(last.items())
                while next_records := list(islice(latest, DECODED_AT_ONCE)):
                    states |= records.replay(next_records, unknown_types)
                    yield len(next_records) * _RECORD_BYTES
            except (KafkaError, WireError) as error:
                _LOG.error("could not read %s-%d: %s (its transactional ids are not served)", TRANSACTION_STATE_TOPIC, index, error)
                each.is_broken = True
                continue
            if unknown_types:
                warn_of_unknown_types(f"{TRANSACTION_STATE_TOPIC}-{index}", unknown_types)
            each.transactions = TransactionalIds(states)
            each.is_loaded = True


class TransactionalIds:
    """The states of the transactional ids of one partition, and their pending steps.

    `prepare` starts a step. While its record is being written, requests for the id get
    CONCURRENT_TRANSACTIONS. Then `apply` makes it the state, or `give_up` drops it after a failed
    write. Invariant: an id has one pending step at most.
    """

    __slots__ = ("_pending", "_states")

    def __init__(self, states: Mapping[str, TransactionMetadata] | None = None) -> None:
        self._states = dict(states or {})  #: these are in the log
        self._pending: dict[str, TransactionMetadata] = {}  #: these are being written to the log

    def __len__(self) -> int:
        return len(self._states)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the persisted state, for DescribeTransactions and for verifying partitions."""
        return self._states.get(transactional_id)

    def settled(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the state that the next request changes.

        Raises:
            ConcurrentTransactions: A step is pending.
        """
        if transactional_id in self._pending:
            raise ConcurrentTransactions
        return self._states.get(transactional_id)

    def all(self) -> list[TransactionMetadata]:
        """Return every persisted state."""
        return list(self._states.values())

    def all_settled(self) -> Iterator[TransactionMetadata]:
        """Return the states without a pending step. They may change during the iteration."""
        if not self._pending:  # the usual case; there may be 100,000
            return iter(self.all())
        return iter([each for each in self._states.values() if each.transactional_id not in self._pending])

    def unfinished(self) -> Iterator[TransactionMetadata]:
        """Return the states whose markers are not all written yet when the broker starts."""
        return (each for each in self.all_settled() if each.state.is_prepared)

    def prepare(self, after: TransactionMetadata) -> None:
        """Start a step.

        Raises:
            ConcurrentTransactions: Another step is pending.
        """
        if after.transactional_id in self._pending:
            raise ConcurrentTransactions
        self._pending[after.transactional_id] = after

    def apply(self, transactional_id: str) -> TransactionMetadata:
        """Make the pending step the state: its record is in the log."""
        after = self._pending.pop(transactional_id)
        if after.state is TransactionState.DEAD:
            self._states.pop(transactional_id, None)
        else:
            self._states[transactional_id] = after
        return after

    def give_up(self, transactional_id: str) -> None:
        """Drop the pending step: its record is not in the log."""
        del self._pending[transactional_id]
