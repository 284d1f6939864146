"""Move partitions between log directories while clients use them (AlterReplicaLogDirs).

    requested   the folder `topic-partition.<id>-future` is created in the destination, and compaction of the log pauses
    copying     one move at a time, a piece in each step, on other threads (log/copying.py); clients read and write the log
    decided     the copy is complete and synced, and a PartitionChangeRecord of the metadata log names the destination
    swapped     the old folder is renamed to `-delete`, the copy to `topic-partition`, and the log continues there

The last piece, the decision and the swap happen in one turn of the loop. After a crash before the decision the log is where it was: the
next start removes the copy and starts again, where Apache Kafka continues the copy. After the decision the next start finishes the swap
(log_opening.py), and so does Apache Kafka's. Sources: ReplicaManager.alterReplicaLogDirs, LogManager, AssignmentsManager.

A failed move is logged and cancelled: the partition stays where it is. A destination whose disk fails goes offline.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from minibroker.errors import KafkaError, KafkaStorageError
from minibroker.log.copying import LogCopy, Piece
from minibroker.log.deletion import remove_folder, remove_later
from minibroker.schemas.internal.topic_records import PartitionChangeRecord
from minibroker.storage.log_file_names import DELETE_FOLDER, STRAY_FOLDER, folder_name_on_its_way, future_folder_name
from minibroker.wire.schema import NIL_UUID

if TYPE_CHECKING:
    from minibroker.background import Background
    from minibroker.clock import Clock, Timer
    from minibroker.cluster.directories.cleaner import Cleaner
    from minibroker.cluster.directories.log_directory import LogDirectory
    from minibroker.cluster.metadata.metadata_store import MetadataStore
    from minibroker.cluster.partition import Partition
    from minibroker.config.broker_config import BrokerConfig
    from minibroker.log.partition_log import PartitionLog
    from minibroker.storage.files import Files

_LOG = logging.getLogger(__name__)

PIECE_SIZE: Final = 8 << 20
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

Key = tuple[str, int]  #: topic and partition


class ReplicaMove:
    """One partition that moves to another directory."""

    def __init__(self, partition: Partition, source: LogDirectory, destination: LogDirectory, copy: LogCopy) -> None:
        self.partition = partition
        self.source = source
        self.destination = destination
        self.copy = copy
        self.is_durable = False  #: whether the copy's folder is on disk
        self.is_cancelled = False

    @property
    def log(self) -> PartitionLog:
        """The log that moves."""
        return self.copy.log


class ReplicaMoves:
    """The moves of one broker, in the order of their requests."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        cleaner: Cleaner,
        *,
        files: Files,
        clock: Clock,
        background: Background,
        on_disk_error: Callable[[LogDirectory, OSError], None],
    ) -> None:
        """`on_disk_error` is called when a destination cannot be written."""
        self._config = config
        self._store = store
        self._cleaner = cleaner
        self._files = files
        self._clock = clock
        self._background = background
        self._on_disk_error = on_disk_error
        self._moves: dict[Key, ReplicaMove] = {}  #: the first one is being copied
        self._timer: Timer | None = None
        self._is_copying = False
        self._is_stopped = False

    def future_logs(self, directory: LogDirectory) -> dict[Key, LogCopy]:
        """Return the copies in a directory."""
        return {key: move.copy for key, move in self._moves.items() if move.destination is directory}

    def begin(self, partition: Partition, source: LogDirectory, destination: LogDirectory) -> None:
        """Start to move a partition, and cancel its earlier move. Raise KafkaStorageError if the copy cannot be created."""
        key = partition.topic, partition.index
        current = self._moves.get(key)
        if current is not None:
            if current.destination is destination:
                return
            self.cancel(key)
        if source is destination:
            return
        log = partition.log
        copy = LogCopy(log, self._files, f"{destination.path}/{future_folder_name(log.name, uuid4().hex)}")
        try:
            copy.create(partition.topic_id)
        except OSError as error:
            raise KafkaStorageError(f"{log.name} cannot be copied to {destination.path}: {error}") from error
        self._cleaner.pause(log)
        self._moves[key] = ReplicaMove(partition, source, destination, copy)
        self._go_on()

    def cancel(self, key: Key) -> None:
        """Leave a partition where it is, and remove its copy. Harmless if it does not move."""
        move = self._moves.pop(key, None)
        if move is None:
            return
        move.is_cancelled = True
        self._cleaner.resume(move.log)
        if move.destination.offline_cause is not None:
            return  # the next start removes the copy
        move.destination.unexpect(key)
        try:
            trash = self._rename_away(move.copy.folder, DELETE_FOLDER)
        except OSError as error:
            _LOG.warning("could not remove %s: %s (will retry on the next start)", move.copy.folder, error)
            return
        if trash is not None:
            self._remove(trash, delay_ms=0)

    def cancel_moves_of(self, directory: LogDirectory) -> None:
        """Cancel all moves from or to a directory that goes offline."""
        for key in [key for key, move in self._moves.items() if directory in {move.source, move.destination}]:
            self.cancel(key)

    def stop(self) -> None:
        """Stop copying. The next start starts the moves again."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # Copying

    def _go_on(self, delay_ms: int = 0) -> None:
        if self._timer is None and not self._is_copying and not self._is_stopped and self._moves:
            self._timer = self._clock.call_later_ms(delay_ms, self._step)

    def _step(self) -> None:
        """Copy a piece of the first log, or swap its complete copy in."""
        self._timer = None
        if not self._moves:
            return
        key, move = next(iter(self._moves.items()))
        if not move.is_durable:
            self._is_copying = True
            self._background.submit(move.copy.sync_folder, partial(self._folder_synced, key, move))
            return
        try:
            piece = move.copy.next_piece(self._piece_size())
            if piece is None:
                self._finish(key, move)
                self._go_on()
                return
            work = move.copy.work(piece)
        except (OSError, KafkaError) as error:
            self._failed(key, move, error)
            return
        self._is_copying = True
        self._background.submit(work, partial(self._copied, key, move, piece))

    def _folder_synced(self, key: Key, move: ReplicaMove, result: object) -> None:
        self._is_copying = False
        move.is_durable = True
        if isinstance(result, BaseException) and not move.is_cancelled and not self._is_stopped:
            self._failed(key, move, result)
        self._go_on()

    def _copied(self, key: Key, move: ReplicaMove, piece: Piece, result: object) -> None:
        self._is_copying = False
        delay_ms = 0
        if move.is_cancelled or self._is_stopped:
            pass
        elif isinstance(result, FileNotFoundError) and piece.base_offset < move.log.segments.nth(0).base_offset:
            move.copy.forget(piece)  # retention has deleted the segment
        elif isinstance(result, BaseException):
            self._failed(key, move, result)
        else:
            move.copy.note(piece)
            delay_ms = piece.size * 1000 // max(self._config.replica_alter_log_dirs_io_max_bytes_per_second, 1)
        self._go_on(delay_ms)

    def _piece_size(self) -> int:
        """Return a size that the throttle lets through within a second."""
        return max(min(PIECE_SIZE, self._config.replica_alter_log_dirs_io_max_bytes_per_second), 1)

    def _failed(self, key: Key, move: ReplicaMove, error: BaseException) -> None:
        if not isinstance(error, OSError | KafkaError):
            raise error
        _LOG.error("could not move %s from %s to %s: %s", move.log.name, move.source.path, move.destination.path, error)
        self.cancel(key)
        if isinstance(error, OSError) and error.errno not in _FULL and move.destination.offline_cause is None:
            self._on_disk_error(move.destination, error)
        self._go_on()

    # The swap

    def _finish(self, key: Key, move: ReplicaMove) -> None:
        """Copy the rest of the active segment and swap the copy in, in this turn."""
        log, partition, destination = move.log, move.partition, move.destination
        move.copy.finish()
        home = f"{destination.path}/{log.name}"
        if self._files.exists(home):
            _LOG.warning("%s is in the way of a move: it is set aside", home)
            self._rename_away(home, STRAY_FOLDER)
        destination.expect(key, log, move.source)
        known = self._store.image.partition_record(partition)
        directories = [
            destination.directory_id if replica == self._config.node_id else directory
            for replica, directory in zip_longest(known.replicas, known.directories, fillvalue=NIL_UUID)
        ]
        self._store.commit([PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id, directories=directories)])
        del self._moves[key]
        self._cleaner.resume(log)
        try:
            trash = self._rename_away(log.directory, DELETE_FOLDER)
            self._files.sync_directory(move.source.path)  # so that a power loss does not leave two folders of the partition
            self._files.rename(move.copy.folder, home)
        except OSError as error:
            self._on_disk_error(move.source, error)
            return
        log.move(home)
        move.source.remove(key)
        destination.add(key, log)
        _LOG.info("%s has moved from %s to %s", log.name, move.source.path, destination.path)
        if trash is not None:
            self._remove(trash, delay_ms=log.config.file_delete_delay_ms, after=destination.path)

    def _rename_away(self, path: str, suffix: str) -> str | None:
        """Rename a folder, so that no start opens it as a log. Return its new path, or None if it does not exist."""
        parent, _, name = path.rpartition("/")
        target = f"{parent}/{folder_name_on_its_way(name, uuid4().hex, suffix)}"
        try:
            self._files.rename(path, target)
        except FileNotFoundError:
            return None
        return target

    def _remove(self, path: str, *, delay_ms: int, after: str | None = None) -> None:
        """Remove a folder in the background, once the names in the directory `after` are on disk."""

        def work() -> None:
            if after is not None:
                self._files.sync_directory(after)
            remove_folder(self._files, path)

        remove_later(work, delay_ms=delay_ms, clock=self._clock, background=self._background)
