"""One partition as the broker serves it: its log, its leader epoch, and the subscribers that wait for new records.

Invariant: all records are written by `append`, `append_validated`, `append_own` and `end_transaction`. These wake the subscribers after
each append that moves high_watermark or last_stable_offset, before the producer gets its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from minibroker.compilation import mypyc_attr
from minibroker.errors import FencedLeaderEpoch, KafkaError, KafkaStorageError, UnknownLeaderEpoch
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import Appended
from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, EndTransactionMarker

NO_EPOCH: Final = -1  #: of a client that does not name a leader epoch


@mypyc_attr(allow_interpreted_subclasses=True)  # handlers/fetch/reading_in_slices.py
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


class Unopened(Exception):  # noqa: N818  not an error: the log must be opened first
    """A log was never used. Opening it takes milliseconds (`open_now`), so a request for many logs must not open them in one turn."""

    def __init__(self, partition: Partition) -> None:
        super().__init__()
        self.partition = partition


class Partition:
    """A partition of a topic.

    `online_log` is None while its files cannot be trusted or read, after the topic's deletion, and until the log of a new partition is used
    for the first time (deferred.py), when `log` opens it.
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
        self.leader_epoch = leader_epoch  #: of the metadata log; raised by elections and after an unclean stop
        self.partition_epoch = partition_epoch
        self.directory_id = directory_id  #: directory.id of its log directory
        self.online_log: PartitionLog | None = None
        self._open_log: Callable[[Partition], None] | None = None  #: opens the log of a new one
        self.offline_cause: KafkaError = KafkaStorageError(f"{topic}-{index} is not open")  #: raised by `log` while there is none
        #: called after each appended marker with the producer's id and epoch, and whether it committed
        self.on_transaction_end: Callable[[int, int, bool], None] | None = None
        self._subscribers = Subscribers()

    @property
    def log(self) -> PartitionLog:
        """The log. Raises KafkaStorageError if the partition is offline, UnknownTopicOrPartition after its topic's deletion."""
        log = self.online_log
        if log is None:
            self.open_now()
            log = self.online_log
            if log is None:
                raise self.offline_cause
        return log

    @property
    def opened_log(self) -> PartitionLog:
        """The log. Raises Unopened instead of opening it."""
        if self.is_unopened:
            raise Unopened(self)
        return self.log

    @property
    def is_online(self) -> bool:
        """Whether there is a log, or `log` can open it."""
        return self.online_log is not None or self._open_log is not None

    @property
    def is_unopened(self) -> bool:
        """Whether it is new and empty, and its log is not opened yet."""
        return self._open_log is not None

    def open_later(self, open_log: Callable[[Partition], None]) -> None:
        """Let `open_log` open the log, at its first use or before. It takes the partition offline if that fails."""
        self._open_log = open_log

    def open_now(self) -> None:
        """Open the log if it is not opened yet."""
        open_log, self._open_log = self._open_log, None
        if open_log is not None:
            open_log(self)

    def take_offline(self, cause: KafkaError) -> None:
        """Remove the log, and wake the subscribers, which then get `cause`."""
        self.online_log = self._open_log = None
        self.offline_cause = cause
        self.wake()

    def append(self, data: memoryview, *, produce_version: int | None = None) -> Appended:
        """Append batches of a producer and wake the subscribers. Raises what PartitionLog.append raises, including LongBatch."""
        log = self.online_log or self.log
        appended = log.append(data, produce_version=produce_version)
        if self._subscribers:
            self.wake()
        return appended

    def append_validated(self, batch: RecordBatch, *, produce_version: int | None = None) -> Appended:
        """Append a long batch that was validated in steps, and wake the subscribers."""
        appended = self.log.append_validated(batch, produce_version=produce_version)
        if self._subscribers:
            self.wake()
        return appended

    def append_own(self, data: bytearray | memoryview) -> Appended:
        """Append a batch of the broker itself, and wake the subscribers. Raises what PartitionLog.append_own raises."""
        appended = self.log.append_own(data)
        if self._subscribers:
            self.wake()
        return appended

    def end_transaction(self, marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, transaction_version: int) -> Appended:
        """Append a marker, call `on_transaction_end`, and wake the subscribers. Raises what PartitionLog.end_transaction raises."""
        appended = self.log.end_transaction(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, transaction_version=transaction_version
        )
        if self.on_transaction_end is not None:
            self.on_transaction_end(producer_id, producer_epoch, marker.control_type is ControlType.COMMIT)
        self.wake()
        return appended

    def advance_log_start_offset(self, offset: int) -> None:
        """Drop records below `offset`, and wake the subscribers. Raise OffsetOutOfRange if it is above the high watermark."""
        self.log.advance_log_start_offset(offset)
        self.wake()

    def wake(self) -> None:
        """Call all subscribers, also when the partition is deleted or offline."""
        self._subscribers.wake()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each move of high_watermark or last_stable_offset. Return a function that cancels it."""
        return self._subscribers.subscribe(callback)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the leader epoch with the client's. Raise FencedLeaderEpoch if that is older, UnknownLeaderEpoch if newer; accept -1."""
        if current_leader_epoch in {NO_EPOCH, self.leader_epoch}:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        raise UnknownLeaderEpoch
