"""The periodic tasks of a broker.

    retention     log.initial.task.delay.ms after the start (earlier if the interval is shorter; Kafka always waits), then every
                  log.retention.check.interval.ms, and when a config changes: `retention.ms=1` empties a topic before AlterConfigs
                  answers
    producers     idle ones expire, checked every producer.id.expiration.check.interval.ms
    checkpoints   recovery points, log start offsets and high watermarks, each at its own interval, if they have changed

Each turn of the loop checks a few logs and deletes a few segments, so that requests are served in between. Retention skips a log that is
being compacted, because deleting its segments would waste the compaction.

Invariant: a failing log reports the error itself (`LogFailures.on_storage_error`); the tasks continue with the other logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from minibroker.background import Background, warn_of_error
from minibroker.clock import Clock, Timer
from minibroker.cluster.directories.log_directory import LogDirectory
from minibroker.cluster.partition import Partition
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.checkpoint_file import LOG_START_OFFSET, RECOVERY_POINT, REPLICATION_OFFSET

_LOG = logging.getLogger(__name__)

LOGS_A_TURN: Final = 16
SEGMENTS_A_TURN: Final = 20  #: deleted ones; about 75 us each
PRODUCERS_A_SEGMENT: Final = 250  #: as much work as a deletion
_BUSY_MS: Final = 1000  #: until a log that is being compacted is checked again
_LEAST_INTERVAL_MS: Final = 10

#: Called with a partition and the amount of work allowed; returns the amount done.
Visit = Callable[[Partition, int], int]


class _Rounds:
    """Visits partitions, a few in each turn of the loop. Each waits at most once."""

    def __init__(self, clock: Clock, visit: Visit) -> None:
        self._clock = clock
        self._visit = visit
        self._due: dict[Partition, None] = {}  #: an ordered set
        self._timer: Timer | None = None

    def add(self, partitions: Iterable[Partition]) -> None:
        """Visit these partitions, the first ones before this returns unless others wait."""
        self._due.update(dict.fromkeys(partitions))
        if self._timer is None:
            self._turn()

    def stop(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._timer = None
        visits, work = LOGS_A_TURN, SEGMENTS_A_TURN
        try:
            while self._due and visits and work > 0:
                partition = next(iter(self._due))
                del self._due[partition]
                visits -= 1
                work -= self._visit(partition, work)
                if work <= 0:
                    self._due[partition] = None  # there may be more to do
        finally:
            if self._due:
                self._timer = self._clock.call_later_ms(0, self._turn)


class Maintenance:
    """The timers of one cluster. `partitions` lists all; `is_busy` is true for a log that is being compacted."""

    def __init__(
        self,
        config: BrokerConfig,
        partitions: Callable[[], list[Partition]],
        directories: Sequence[LogDirectory],
        *,
        clock: Clock,
        background: Background,
        is_busy: Callable[[PartitionLog], bool],
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._directories = directories
        self._clock = clock
        self._background = background
        self._is_busy = is_busy
        self._retention = _Rounds(clock, self._enforce_unless_busy)
        self._producers = _Rounds(clock, self._forget_producers)
        self._postponed: dict[Partition, None] = {}  #: partitions whose logs are being compacted
        self._timers: dict[str, Timer] = {}
        self._is_stopped = False

    def start(self) -> None:
        """Start the timers. All logs must be open."""
        config = self._config
        self._later("retention", min(config.log_initial_task_delay_ms, config.log_retention_check_interval_ms), self._check_retention)
        self._later("producers", config.producer_id_expiration_check_interval_ms, self._check_producers)
        for name, interval_ms in (
            (RECOVERY_POINT, config.log_flush_offset_checkpoint_interval_ms),
            (LOG_START_OFFSET, config.log_flush_start_offset_checkpoint_interval_ms),
            (REPLICATION_OFFSET, config.replica_high_watermark_checkpoint_interval_ms),
        ):
            self._later(name, interval_ms, partial(self._write_checkpoint, name, interval_ms))

    def stop(self) -> None:
        """Cancel all timers."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._retention.stop()
        self._producers.stop()

    def check(self, partitions: Iterable[Partition]) -> None:
        """Apply changed retention to these partitions. The work of the first turn is done when this returns.

        With `minibroker.like.kafka` they wait for the next periodic check, as in Apache Kafka.
        """
        if not self._is_stopped and not self._config.minibroker_like_kafka:
            self._retention.add(partitions)

    def _later(self, name: str, delay_ms: int, work: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._timers[name] = self._clock.call_later_ms(max(delay_ms, _LEAST_INTERVAL_MS), work)

    # Retention

    def _check_retention(self) -> None:
        self._later("retention", self._config.log_retention_check_interval_ms, self._check_retention)
        self._retention.add(self._partitions())

    def _enforce_unless_busy(self, partition: Partition, limit: int) -> int:
        log = partition.online_log
        if log is not None and self._is_busy(log):
            if not self._postponed:
                self._later("postponed", _BUSY_MS, self._check_postponed)
            self._postponed[partition] = None
            return 0
        return self._enforce(partition, limit)

    def _check_postponed(self) -> None:
        postponed, self._postponed = self._postponed, {}
        self.check(postponed)

    def _enforce(self, partition: Partition, limit: int) -> int:
        log = partition.online_log
        if log is None:
            return 0
        try:
            count = log.retention.enforce(self._clock.now_ms(), limit=limit)
        except KafkaError as error:
            _LOG.warning("%s: retention: %s", log.name, error)
            return 0
        if count:
            _LOG.info("%s: %d segments deleted by retention, it starts at offset %d now", log.name, count, log.log_start_offset)
            partition.wake()
        return count

    # Producers

    def _check_producers(self) -> None:
        self._later("producers", self._config.producer_id_expiration_check_interval_ms, self._check_producers)
        self._producers.add(self._partitions())

    def _forget_producers(self, partition: Partition, _: int) -> int:
        if partition.online_log is None:
            return 0
        return partition.online_log.remove_expired_producers(self._config.producer_id_expiration_ms) // PRODUCERS_A_SEGMENT

    # Checkpoints

    def _write_checkpoint(self, name: str, interval_ms: int) -> None:
        self._later(name, interval_ms, partial(self._write_checkpoint, name, interval_ms))
        for directory in self._directories:
            if directory.offline_cause is None:
                self._background.submit(
                    partial(directory.write_checkpoints, directory.checkpoint((name,))),
                    partial(warn_of_error, _LOG, "could not write checkpoints: %s"),
                )
