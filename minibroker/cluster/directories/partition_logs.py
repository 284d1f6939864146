"""`PartitionLogs`: opens, configures, maintains, moves and closes the logs of all partitions.

    opened       all at a start; those of new partitions a few in each turn (deferred.py)
    configured   from the broker's configs and those of the topic, again after each change
    maintained   by retention and checkpoints (maintenance.py) and compaction (cleaner.py)
    moved        between log directories (replica_moves.py)
    lost         one by one (removal_watch.py), or with a whole directory whose disk failed (log_directory.py)

The metadata log decides which partitions exist (`MetadataStore.image`). This module only writes new leader epochs to it, and
`replica_moves.py` new directories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.configs.topic_config import broker_log_config, log_config
from minibroker.cluster.directories.cleaner import Cleaner
from minibroker.cluster.directories.deferred import LateOpening, LateRemoval
from minibroker.cluster.directories.log_directory import LogDirectory
from minibroker.cluster.directories.log_opening import LogOpener
from minibroker.cluster.directories.maintenance import Maintenance
from minibroker.cluster.directories.removal_watch import RemovalWatch
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import CorruptLogError, KafkaError, KafkaStorageError, UnknownTopicOrPartition
from minibroker.log.failures import LogFailures
from minibroker.log.flusher import Flush
from minibroker.log.partition_log import PartitionLog, truncated
from minibroker.storage.files import Files

if TYPE_CHECKING:
    from minibroker.cluster.directories.replica_moves import ReplicaMoves
    from minibroker.log.copying import LogCopy

_LOG = logging.getLogger(__name__)


class PartitionLogs:
    """The logs of one cluster. Call `open_all` once, then `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        directories: Sequence[LogDirectory],
        *,
        files: Files,
        clock: Clock,
        background: Background,
        all_directories: Sequence[LogDirectory] | None = None,
    ) -> None:
        """`all_directories` includes that of the metadata log, if it has its own."""
        self.directories = directories
        self.on_all_offline: Callable[[], None] | None = None  #: called when the last log directory goes offline
        self._config = config
        self._store = store
        self._files, self._clock, self._background = files, clock, background
        self._log_config = broker_log_config(config)  #: that of a topic without overrides
        self._opener = LogOpener(files, clock, background, directories)
        self._late_opening = LateOpening(clock, self._open)
        self._late_removal = LateRemoval(clock, self._delete)
        store.is_busy = lambda: len(self._late_removal) > 0
        self.cleaner = Cleaner(
            config, directories, files=files, clock=clock, background=background, on_storage_error=self._on_storage_error
        )
        self.maintenance = Maintenance(
            config,
            self.partitions,
            directories,
            clock=clock,
            background=background,
            is_busy=lambda log: log in self.cleaner.running,
        )
        self._moves: ReplicaMoves | None = None  #: created at the first move
        self._removal_watch = RemovalWatch(
            directories if all_directories is None else all_directories,
            store.log.folder,
            files=files,
            clock=clock,
            on_directory_lost=self._on_directory_lost,
            on_log_lost=self._on_log_lost,
        )

    def partitions(self) -> list[Partition]:
        """Return the partitions of all topics."""
        return [partition for topic in self._store.image.topics.values() for partition in topic.partitions]

    # A start

    def open_all(self) -> None:
        """Open the log of each partition, or take the partition offline. Remove folders of deleted topics."""
        self._log_config = broker_log_config(self._config)
        image = self._store.image
        partitions = self.partitions()
        self._opener.misses_removed_ids = self._store.log.begins_in_snapshot
        self._opener.scan(image.removed_topic_ids, {f"{each.topic}-{each.index}": each for each in partitions})
        if not all(directory.was_clean for directory in self.directories):
            self._store.raise_leader_epochs(partitions)
        for partition in partitions:
            self._opener.count_placed(partition)
            self._open(partition)
        known = {(partition.topic, partition.index) for partition in partitions}
        for directory in self.directories:
            directory.settle(known)

    def start(self) -> None:
        """Start maintenance, compaction and the watch for removed files, and restart interrupted moves."""
        self._removal_watch.start()
        self.maintenance.start()
        self.cleaner.start()
        for partition, destination in self._opener.interrupted_moves:
            if partition.online_log is not None and destination.offline_cause is None:
                try:
                    self.move(partition, destination)
                except KafkaError as error:
                    _LOG.error("%s-%d: %s", partition.topic, partition.index, error)

    # Partitions come and go

    def check_online(self) -> None:
        """Raise KafkaStorageError if every directory is offline."""
        self._opener.online()

    def choose_directories(self, topic: str, indexes: range) -> list[UUID]:
        """Return the directory.id for each new partition. Raise KafkaStorageError if every directory is offline."""
        return self._opener.choose_directories(topic, indexes)

    def prefer(self, topic: str, index: int, directory: LogDirectory) -> None:
        """Record where a partition that does not exist yet will be created."""
        self._opener.prefer((topic, index), directory)

    def move(self, partition: Partition, destination: LogDirectory) -> None:
        """Start to move a partition to another directory. Raise KafkaStorageError if it is offline or cannot be copied."""
        log = partition.log
        source = next(each for each in self.directories if each.logs.get((partition.topic, partition.index)) is log)
        if self._moves is None:
            from minibroker.cluster.directories.replica_moves import ReplicaMoves  # noqa: PLC0415  a start does not need it

            self._moves = ReplicaMoves(
                self._config,
                self._store,
                self.cleaner,
                files=self._files,
                clock=self._clock,
                background=self._background,
                on_disk_error=self._take_offline,
            )
        self._moves.begin(partition, source, destination)

    def future_logs(self, directory: LogDirectory) -> dict[tuple[str, int], LogCopy]:
        """Return the copies of partitions that move to a directory."""
        return {} if self._moves is None else self._moves.future_logs(directory)

    def add(self, partitions: Iterable[Partition], *, at_first_use: bool = False) -> None:
        """Add new partitions, whose logs are opened soon or when they are used first. With `at_first_use` they are opened only then."""
        self._late_opening.add(partitions, at_first_use=at_first_use)

    def finish_opening(self) -> None:
        """Open all logs of new partitions now, so that each log is in the list of its directory."""
        self._late_opening.finish()

    def remove(self, partitions: Iterable[Partition]) -> None:
        """Remove partitions of deleted topics. Clients no longer find them. This turn of the loop and later ones rename their folders."""
        for partition in partitions:
            key = partition.topic, partition.index
            log = partition.online_log
            partition.take_offline(UnknownTopicOrPartition())
            if self._moves is not None:
                self._moves.cancel(key)
            if log is not None:
                self.cleaner.cancel(log)
            for directory in self.directories:
                if directory.remove(key) is log is not None:
                    self._late_removal.add(key, directory, log)
        self._late_removal.start()

    def _delete(self, log: PartitionLog) -> None:
        try:
            log.delete()
        except (OSError, KafkaError) as error:
            _LOG.warning("could not remove %s: %s (will retry on the next start)", log.name, error)

    def _open(self, partition: Partition) -> bool:
        """Open a partition's log, or take the partition offline. Return whether a retry may succeed."""
        self._late_removal.make_way((partition.topic, partition.index))
        image = self._store.image
        if self._config.node_id not in (replicas := image.partition_record(partition).replicas):
            partition.take_offline(KafkaStorageError(f"{partition.topic}-{partition.index} has its replicas on nodes {replicas}"))
            return False
        may_pass = self._opener.open(
            partition,
            log_config(self._log_config, image.topics[partition.topic].config),
            removed_topic_ids=image.removed_topic_ids,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
        )
        if partition.online_log is not None:
            self._adopt(partition.online_log)
        return may_pass

    def _adopt(self, log: PartitionLog) -> None:
        log.producers.is_allocated = self._store.is_allocated_producer_id
        log.failures.on_storage_error = partial(self._on_log_error, (log.topic, log.partition))  # the log itself would be a cycle

    def raise_leader_epochs(self, partitions: Sequence[Partition]) -> None:
        """Give partitions a new leader epoch durably, as an election does.

        Raises:
            KafkaStorageError: The metadata log cannot be written. Nothing was changed.
        """
        self._store.raise_leader_epochs(partitions)
        for partition in partitions:
            if partition.online_log is not None:
                partition.online_log.assign_leader_epoch(partition.leader_epoch)

    def truncate(self, partition: Partition, end_offset: int) -> None:
        """Drop the records from `end_offset` on. If the files cannot be truncated, the partition is offline until the next start."""
        log = partition.online_log
        if log is None or end_offset >= log.log_end_offset:
            return
        key = partition.topic, partition.index
        directory = next(each for each in self.directories if each.logs.get(key) is log)
        _LOG.warning("%s loses offsets %d to %d: its new leader does not have them", log.name, end_offset, log.log_end_offset - 1)
        self.cleaner.cancel(log)
        try:
            left = truncated(
                log,
                end_offset,
                files=self._files,
                clock=self._clock,
                background=self._background,
                was_compacted=directory.cleaner_offsets.was_compacted(key),
                producer_id_expiration_ms=self._config.producer_id_expiration_ms,
            )
        except (CorruptLogError, OSError, KafkaError) as error:
            partition.take_offline(KafkaStorageError(f"{log.name} is offline: {error}"))
            _LOG.error("%s: could not truncate the log: %s (offline until the next start)", log.name, error)
            return
        self._adopt(left)
        left.assign_leader_epoch(partition.leader_epoch)
        left.on_shown = partition.wake
        partition.online_log = left
        directory.add(key, left)

    # Configs

    def configure(self, topics: Iterable[Topic]) -> list[Partition]:
        """Apply the configs of topics to their logs. Return the partitions whose config changed."""
        changed = []
        for topic in topics:
            config = log_config(self._log_config, topic.config)
            for partition in topic.partitions:
                if partition.online_log is not None and partition.online_log.config != config:
                    partition.online_log.update_config(config)
                    changed.append(partition)
        self.cleaner.reconsider()
        return changed

    def configure_all(self) -> list[Partition]:
        """Apply changed configs of the broker to all logs. Return the partitions whose config changed."""
        self._log_config = broker_log_config(self._config)
        return self.configure(self._store.image.topics.values())

    # Failures

    def _on_log_error(self, key: tuple[str, int], failures: LogFailures, error: OSError) -> None:
        logs = (each.logs.get(key) for each in self.directories)
        log = next((log for log in logs if log is not None and log.failures is failures), None)
        if log is not None:
            self._on_storage_error(log, error)

    def _on_storage_error(self, log: PartitionLog, error: OSError) -> None:
        """Handle a failed system call of a log, which may take its directory offline."""
        directory = next((each for each in self.directories if each.logs.get((log.topic, log.partition)) is log), None)
        if directory is not None and directory.must_go_offline_after(log, error):
            self._take_offline(directory, error)
        elif log.failures.offline_cause is not None:
            for partition in self.partitions():
                if partition.online_log is log:
                    partition.wake()  # waiting readers report the error

    def _on_directory_lost(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline that was removed, or whose folder of the metadata log was."""
        if self._store.log.folder.startswith(f"{directory.path}/"):
            self._store.log.take_offline(error)
        self._take_offline(directory, error)

    def _on_log_lost(self, directory: LogDirectory, log: PartitionLog, error: OSError) -> None:
        """Take a partition offline whose files were removed. The other logs of the directory continue."""
        _LOG.error("%s is offline until the next start, its log ended at offset %d: %s", log.name, log.log_end_offset, error)
        key = log.topic, log.partition
        if self._moves is not None:
            self._moves.cancel(key)
        self.cleaner.cancel(log)
        directory.lose(key, log)
        self._store.image.topics[log.topic].partitions[log.partition].take_offline(KafkaStorageError(f"{log.name} is offline: {error}"))

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        _LOG.error("%s is offline with its %d partitions until the next start: %s", directory.path, len(directory.logs), error)
        topics = self._store.image.topics
        lost = [topics[topic].partitions[index] for topic, index in directory.logs]
        for each in directory.logs.values():
            self.cleaner.cancel(each)
        directory.take_offline(error)
        if self._moves is not None:
            self._moves.cancel_moves_of(directory)
        for partition in lost:
            partition.take_offline(KafkaStorageError(f"{directory.path} is offline: {error}"))
        if all(each.offline_cause is not None for each in self.directories):
            _LOG.error("every log directory is offline: no partition is served until a restart")
            if self.on_all_offline is not None:
                self.on_all_offline()

    # Closing

    def close(self, *, clean: bool) -> None:
        """Close all logs. If `clean`, also write checkpoints and the clean-shutdown markers."""
        self._removal_watch.stop()
        self.maintenance.stop()
        self.cleaner.stop()
        if self._moves is not None:
            self._moves.stop()
        if clean:
            self.finish_opening()
            self._late_removal.finish()
        self._late_opening.stop()
        self._late_removal.stop()
        is_whole = all(partition.online_log is not None for partition in self.partitions())
        for directory in self.directories:
            closed = close_logs(list(directory.logs.values()), clean=clean)
            if clean and all(closed) and directory.offline_cause is None:
                self._finish(directory, is_whole=is_whole)

    def _finish(self, directory: LogDirectory, *, is_whole: bool) -> None:
        try:
            directory.write_checkpoints(directory.checkpoint(), is_last=True)
            if is_whole:
                directory.mark_clean(self._store.image.kept.broker_epoch(self._config.node_id))
        except OSError as error:
            _LOG.warning("%s: no clean shutdown: %s", directory.path, error)


THREADS: Final = 16  #: threads are used only for at least as many logs
_LOGS_AT_ONCE: Final = 64  #: each needs a few descriptors


def close_logs(logs: Sequence[PartitionLog], *, clean: bool) -> list[bool]:
    """Close logs, and log errors. Return for each whether it was closed as requested.

    A disk syncs the files of many logs in parallel about as fast as those of one. So a broker with thousands of partitions stops quickly.
    """
    if clean and sum(log.flusher.unflushed_messages > 0 for log in logs) >= THREADS:
        return _close_together(iter(logs))
    return [_close(log, clean=clean) for log in logs]


def _close(log: PartitionLog, *, clean: bool) -> bool:
    try:
        log.close(clean=clean)
    except (OSError, KafkaError) as error:
        _warn(log, error)
        return False
    return True


def _close_together(logs: Iterator[PartitionLog]) -> list[bool]:
    closed: list[bool] = []
    with ThreadPoolExecutor(THREADS, "minibroker-closing") as threads:
        while some := list(islice(logs, _LOGS_AT_ONCE)):
            flushes = [_begin_close(log) for log in some]
            errors = threads.map(_run_close, flushes)
            closed += [_end_close(*each) for each in zip(some, flushes, errors, strict=True)]
    return closed


def _begin_close(log: PartitionLog) -> Flush | BaseException | None:
    """Return what must be synced (None: nothing), or the error that prevents it."""
    try:
        log.finish()
        return log.flusher.begin_flush(with_active_indexes=True) if log.flusher.unflushed_messages else None
    except (OSError, KafkaError) as error:
        return error


def _run_close(flush: Flush | BaseException | None) -> BaseException | None:
    """Sync, in a worker thread. Return the error, if any."""
    if not isinstance(flush, Flush):
        return flush
    try:
        flush.run()
    except OSError as error:
        return error
    return None


def _end_close(log: PartitionLog, flush: Flush | BaseException | None, error: BaseException | None) -> bool:
    try:
        if isinstance(flush, Flush):
            log.flusher.end_flush(flush, error)
        elif error is not None:
            raise error
    except (OSError, KafkaError) as failure:
        _warn(log, failure)
        return False
    return _close(log, clean=False)


def _warn(log: PartitionLog, error: BaseException) -> None:
    _LOG.warning("%s was not closed cleanly: %s", log.name, error)
