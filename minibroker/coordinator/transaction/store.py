"""`__transaction_state`: where transactional ids live, each in the partition that its hash says.

A partition of the topic is read when the broker starts or the topic appears, and kept in memory from then on:

    loading --its records are read--> loaded        COORDINATOR_LOAD_IN_PROGRESS until then, which clients retry
       |--its log is offline, or no such log--> unusable: NOT_COORDINATOR, which clients retry, until the next start

Reading is spread over turns of the loop: a start with many ids serves everything else meanwhile.

Invariant: what `Transactions` calls the state is in the log; a write that fails leaves no trace. After a failed fsync nobody knows what
is in the log, which is offline then, and with it its ids.

Source: TransactionStateManager, TransactionLog of Apache Kafka 4.3.1.

The transactional ids of one partition of `__transaction_state`, and the step of each that is not persisted yet.

A step has two halves. `prepare` takes what `states` decided, while its record is on the way to the log; until then the id answers
CONCURRENT_TRANSACTIONS. Then either `apply`: it is the state now; or `give_up`: the write failed, and nothing ever happened.

Invariant: an id has one step under way at most. Source: pendingState of Kafka's TransactionMetadata.
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
from minibroker.coordinator.placement import partition_of
from minibroker.coordinator.record_frame import warn_of_unknown_types
from minibroker.coordinator.stored_topic import READ_BYTES, check, read_pieces
from minibroker.coordinator.transaction import records
from minibroker.coordinator.transaction.metadata import TransactionMetadata, TransactionState
from minibroker.errors import ConcurrentTransactions, CoordinatorLoadInProgress, KafkaError, NotCoordinator, WireError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.builder import build_batch
from minibroker.records.record import Record

BYTES_A_TURN: Final = READ_BYTES  #: some 5 ms
DECODED_AT_ONCE: Final = 500  #: ids
BYTES_AT_START: Final = 512 * 1024  #: before anything is served: some 2,000 ids
_RECORD_BYTES: Final = 140  #: decoding a record is as much work as reading it

_LOG = logging.getLogger(__name__)


class StatePartition:
    """One partition of the topic and its ids. Written by StateStore, but for `transactions`."""

    __slots__ = ("_partition", "is_broken", "is_loaded", "transactions")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.transactions = Transactions()
        self.is_loaded = False
        self.is_broken = False  #: its records cannot be read

    @property
    def coordinator_epoch(self) -> int:
        """That markers carry, so that a partition can tell an old coordinator from a new one."""
        return self._partition.leader_epoch

    @property
    def is_online(self) -> bool:
        """Whether its log can be read and written."""
        return self._partition.is_online

    def check(self) -> None:
        """Refuse where the ids are not known: CoordinatorLoadInProgress, NotCoordinator."""
        if self.is_broken or not self.is_online:
            raise NotCoordinator
        if not self.is_loaded:
            raise CoordinatorLoadInProgress

    def append(self, after: TransactionMetadata, *, now_ms: int, transaction_version: int) -> PartitionLog:
        """Append the record of `after`, and return the log that has it: it may want to be synced. NotCoordinator when that fails."""
        key, value = records.encode(after, transaction_version=transaction_version)
        try:
            log = self._partition.log
            self._partition.append_own(build_batch([Record(0, now_ms, key, value)]))
        except KafkaError as error:
            _LOG.error("the state of transactional id %s cannot be written: %s", after.transactional_id, error)
            raise NotCoordinator from error
        return log

    def read(self) -> Iterator[tuple[int, list[Record]]]:
        """Yield the records of the log, a piece at a time, and its size in bytes.

        Raises:
            KafkaError: The log cannot be read. CorruptMessage if a byte is wrong: the batch may be a decision about any transactional id.
        """
        for size, batches in read_pieces(self._partition):
            for batch in batches:
                check(batch)
            yield size, [record for batch in batches if not batch.is_control for record in decode_records(batch)]


class StateStore:
    """All partitions of the topic, as long as it is the same topic."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, *, on_loaded: Callable[[], None], on_gone: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._on_loaded = on_loaded  #: called when every partition that can be read is
        self._on_gone = on_gone  #: called when the topic is another one, or none
        self.topic: Topic | None = None  #: whose partitions these are; written here
        self._loading: Iterator[int] | None = None
        self._timer: Timer | None = None
        self.partitions: list[StatePartition] = []  #: by index; written here

    @property
    def is_complete(self) -> bool:
        """Whether every id that there is, is known."""
        return bool(self.partitions) and len(self.usable()) == len(self.partitions)

    def usable(self) -> list[StatePartition]:
        """The partitions whose ids are known."""
        return [each for each in self.current() if each.is_loaded and each.is_online]

    def current(self) -> list[StatePartition]:
        """The partitions of the topic as it is now."""
        self.follow_topic()
        return self.partitions

    def ensure_topic(self) -> None:
        """Create the topic if there is none, as Apache Kafka configures it; KafkaError."""
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
        """Load the topic when it is not the one that is known: it was created, or deleted, or both."""
        topic = self._cluster.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is self.topic:
            return
        self.stop()
        self.topic = topic
        self.partitions = [StatePartition(each) for each in topic.partitions] if topic is not None else []
        self._loading = self._load()
        self._on_gone()  # answers requests, which may ask for their ids again
        self._turn(BYTES_AT_START)

    def stop(self) -> None:
        """Load no further."""
        self._loading = None
        if self._timer is not None:
            self._timer.cancel()

    def partition_of(self, transactional_id: str) -> StatePartition:
        """Where an id lives; CoordinatorLoadInProgress, NotCoordinator."""
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
        """Load one partition after the other; every step is the work of so many bytes that were read."""
        for index, each in enumerate(self.partitions):
            if not each.is_online:
                continue
            last: dict[bytes | None, bytes | None] = {}  #: values by key, so that one record of an id is decoded, not each
            states: dict[str, TransactionMetadata] = {}
            unknown_types: Counter[int] = Counter()
            try:
                for size, piece in each.read():
                    for record in piece:
                        last.pop(record.key, None)
                        last[record.key] = record.value
                    yield size
                latest = iter(last.items())
                while some := list(islice(latest, DECODED_AT_ONCE)):
                    states |= records.replay(some, unknown_types)
                    yield len(some) * _RECORD_BYTES
            except (KafkaError, WireError) as error:
                _LOG.error("%s-%d cannot be read, its transactional ids are not served: %s", TRANSACTION_STATE_TOPIC, index, error)
                each.is_broken = True
                continue
            if unknown_types:
                warn_of_unknown_types(f"{TRANSACTION_STATE_TOPIC}-{index}", unknown_types)
            each.transactions = Transactions(states)
            each.is_loaded = True


class Transactions:
    """States by transactional id."""

    __slots__ = ("_pending", "_states")

    def __init__(self, states: Mapping[str, TransactionMetadata] | None = None) -> None:
        self._states = dict(states or {})  #: what the log says
        self._pending: dict[str, TransactionMetadata] = {}  #: what the log is being told

    def __len__(self) -> int:
        return len(self._states)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """The state that is persisted, whatever is under way: for DescribeTransactions and for verifying partitions."""
        return self._states.get(transactional_id)

    def settled(self, transactional_id: str) -> TransactionMetadata | None:
        """The state to decide upon.

        Raises:
            ConcurrentTransactions: a step is under way.
        """
        if transactional_id in self._pending:
            raise ConcurrentTransactions
        return self._states.get(transactional_id)

    def all(self) -> list[TransactionMetadata]:
        """Every state that is persisted."""
        return list(self._states.values())

    def all_settled(self) -> Iterator[TransactionMetadata]:
        """Those without a step under way: for the scans of `timeouts`. A copy, so that steps may be taken meanwhile."""
        if not self._pending:  # as almost always; there may be 100,000
            return iter(self.all())
        return iter([each for each in self._states.values() if each.transactional_id not in self._pending])

    def unfinished(self) -> Iterator[TransactionMetadata]:
        """Those whose markers are still to be written, as a start finds them."""
        return (each for each in self.all_settled() if each.state.is_prepared)

    def prepare(self, after: TransactionMetadata) -> None:
        """A record of `after` goes to the log.

        Raises:
            ConcurrentTransactions: another step is under way.
        """
        if after.transactional_id in self._pending:
            raise ConcurrentTransactions
        self._pending[after.transactional_id] = after

    def apply(self, transactional_id: str) -> TransactionMetadata:
        """The record is in the log."""
        after = self._pending.pop(transactional_id)
        if after.state is TransactionState.DEAD:
            self._states.pop(transactional_id, None)
        else:
            self._states[transactional_id] = after
        return after

    def give_up(self, transactional_id: str) -> None:
        """The record is not in the log, and never will be."""
        del self._pending[transactional_id]
