"""One partition as the broker serves it: its log, its leader epoch, and who waits for it to move.

Invariant: `append`, `append_validated`, `append_own` and `end_transaction` are the ways in. Subscribers are woken after each append that
moved high_watermark or last_stable_offset, and before the producer has its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from minibroker.errors import FencedLeaderEpoch, KafkaError, KafkaStorageError, UnknownLeaderEpoch
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import Appended
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker

NO_EPOCH = -1  #: a client that does not say which leader it believes in


class Subscribers(dict[object, Callable[[], None]]):
    """Callbacks by subscription, in the order in which they subscribed. A dict, so that an append checks for subscribers at no cost."""

    __slots__ = ()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at each `wake`. Returns a function that cancels the subscription; calling it twice is harmless."""
        subscription = object()
        self[subscription] = callback

        def cancel() -> None:
            self.pop(subscription, None)

        return cancel

    def wake(self) -> None:
        """Call all current subscribers. A callback may cancel its own subscription and others."""
        for callback in list(self.values()):
            callback()


class Unopened(Exception):  # noqa: N818  not an error: the log has to be opened first
    """A log was never used: to open it takes milliseconds (`open_now`), so a request for many logs must not open them in one turn."""

    def __init__(self, partition: Partition) -> None:
        super().__init__()
        self.partition = partition


class Partition:
    """A partition of a topic.

    `online_log` is None while its files cannot be trusted or read, after the topic's deletion, and as long as nobody has needed the log of
    a new partition (late_opening.py): `log` opens it then.
    """

    __slots__ = (
        "_open_log",
        "_subscribers",
        "directory_id",
        "index",
        "leader_epoch",
        "offline_cause",
        "on_transaction_end",
        "online_log",
        "partition_epoch",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, index: int, *, leader_epoch: int, partition_epoch: int, directory_id: UUID) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch  #: of the metadata log; raised at each start, as an election would
        self.partition_epoch = partition_epoch
        self.directory_id = directory_id  #: directory.id of the log dir that holds it
        self.online_log: PartitionLog | None = None
        self._open_log: Callable[[Partition], None] | None = None  #: gives a new one its log
        self.offline_cause: KafkaError = KafkaStorageError(f"{topic}-{index} is not open")  #: what `log` raises while there is none
        #: told the producer's id and epoch, and whether it committed, behind each marker that is appended
        self.on_transaction_end: Callable[[int, int, bool], None] | None = None
        self._subscribers = Subscribers()

    @property
    def log(self) -> PartitionLog:
        """The log; raises KafkaStorageError while the partition is offline, UnknownTopicOrPartition once its topic is deleted."""
        log = self.online_log
        if log is None:
            self.open_now()
            log = self.online_log
            if log is None:
                raise self.offline_cause
        return log

    @property
    def opened_log(self) -> PartitionLog:
        """As `log`, but raises Unopened instead of opening it."""
        if self.is_unopened:
            raise Unopened(self)
        return self.log

    @property
    def is_online(self) -> bool:
        """Whether there is a log, or will be when it is needed."""
        return self.online_log is not None or self._open_log is not None

    @property
    def is_unopened(self) -> bool:
        """Whether it is new and has no log yet, for nobody has needed it or it cannot be opened for now: nothing is in it."""
        return self._open_log is not None

    def open_later(self, open_log: Callable[[Partition], None]) -> None:
        """`open_log` gives it its log, or takes it offline, perhaps for another try; at the latest when `log` is asked for."""
        self._open_log = open_log

    def open_now(self) -> None:
        """Open a log that waits for that."""
        open_log, self._open_log = self._open_log, None
        if open_log is not None:
            open_log(self)

    def take_offline(self, cause: KafkaError) -> None:
        """There is no log from now on; whoever waits is woken and finds out."""
        self.online_log = self._open_log = None
        self.offline_cause = cause
        self.wake()

    def append(self, data: memoryview, *, produce_version: int | None = None) -> Appended:
        """Append what a producer sent and wake the subscribers; raises what PartitionLog.append raises, LongBatch among it."""
        log = self.online_log or self.log
        appended = log.append(data, produce_version=produce_version)
        if self._subscribers:
            self.wake()
        return appended

    def append_validated(self, batch: RecordBatch, *, produce_version: int | None = None) -> Appended:
        """Append a long batch that was validated in steps; as `append` otherwise."""
        appended = self.log.append_validated(batch, produce_version=produce_version)
        if self._subscribers:
            self.wake()
        return appended

    def append_own(self, data: bytearray | memoryview) -> Appended:
        """Append a batch of the broker itself and wake who waits; raises what PartitionLog.append_own raises."""
        appended = self.log.append_own(data)
        if self._subscribers:
            self.wake()
        return appended

    def end_transaction(self, marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, transaction_version: int) -> Appended:
        """Append a marker, tell `on_transaction_end`, and wake who waits; raises what PartitionLog.end_transaction raises."""
        appended = self.log.end_transaction(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, transaction_version=transaction_version
        )
        if self.on_transaction_end is not None:
            self.on_transaction_end(producer_id, producer_epoch, marker.control_type is ControlType.COMMIT)
        self.wake()
        return appended

    def advance_log_start_offset(self, offset: int) -> None:
        """Forget records below `offset` and wake who waits; OffsetOutOfRange above the high watermark."""
        self.log.advance_log_start_offset(offset)
        self.wake()

    def wake(self) -> None:
        """Call every subscriber; also when the partition is deleted or goes offline, so that nobody waits for nothing."""
        self._subscribers.wake()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each move of high_watermark or last_stable_offset; returns what ends it (harmless twice)."""
        return self._subscribers.subscribe(callback)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare with what the client knows: FencedLeaderEpoch when it is behind, UnknownLeaderEpoch when ahead; -1 passes."""
        if current_leader_epoch in {NO_EPOCH, self.leader_epoch}:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        raise UnknownLeaderEpoch
