"""`MetadataStore`: the metadata log and its image, changed together. A record is in the image exactly when it is on disk.

It also writes changes of configs and features, leader epochs and blocks of producer ids, which consist only of records.

A new log starts with the records of `bootstrap.checkpoint` in the same directory, which `kafka-storage format` and
`minibroker storage format` write, else with the newest level of each feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.metadata.features import ELIGIBLE_LEADERS_FEATURE, check_levels, default_levels
from minibroker.cluster.metadata.frame import METADATA_VERSION, METADATA_VERSION_FEATURE, MetadataOperation
from minibroker.cluster.metadata.metadata_image import ALL_BROKERS, BROKER_RESOURCE, IN_SYNC_MIN, MetadataImage, config_records
from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX, SEGMENT_BYTES, MetadataLog
from minibroker.cluster.metadata.metadata_reader import FOLDER
from minibroker.cluster.metadata.snapshot import BOOTSTRAP, read_snapshot
from minibroker.cluster.metadata.trimming import MetadataTrimmer, TrimmingLimits
from minibroker.cluster.partition import Partition
from minibroker.schemas.internal.setting_records import FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import PartitionChangeRecord
from minibroker.storage.files import Files
from minibroker.wire.schema import replace

NO_LEADER = -1
PRODUCER_IDS_IN_BLOCK = 1000  #: as Kafka's ProducerIdsBlock
_NO_BROKER_EPOCH = -1  #: this broker does not register itself, because no other process reads the log


class MetadataStore:
    """The durable state of a cluster. Call `load` once before anything else."""

    def __init__(
        self,
        files: Files,
        directory: str,
        *,
        node_id: int,
        directory_id: UUID,
        clock: Clock,
        background: Background,
        segment_bytes: int = SEGMENT_BYTES,
        limits: TrimmingLimits | None = None,
        in_sync_min: int = 1,
    ) -> None:
        """`in_sync_min` is the static min.insync.replicas."""
        self.image = MetadataImage(node_id)
        folder = f"{directory}/{FOLDER}"
        self.log = MetadataLog(files, folder, node_id=node_id, directory_id=directory_id, clock=clock, segment_bytes=segment_bytes)
        self._trimmer = MetadataTrimmer(self.log, limits or TrimmingLimits(), files, clock, background)
        self._is_settled = False  #: whether operations that a crash interrupted are finished
        self.is_busy: Callable[[], bool] = lambda: (
            False
        )  #: whether folders of deleted topics still have their names; then no snapshot is taken
        self._files = files
        self._directory = directory
        self._node_id = node_id
        self._in_sync_min = in_sync_min
        self._producer_ids: Iterator[int] = iter(())

    @property
    def last_offset(self) -> int:
        """The last offset of the metadata log, which is also the epoch of finalized features."""
        return self.log.log_end_offset - 1

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the metadata log."""
        return self.log.leader_epoch

    def load(self) -> None:
        """Replay the log, or create one.

        Raises:
            ConfigurationError: The log is damaged, contradicts itself, or has a feature at a level that cannot be served.
        """
        for record in self.log.replay():
            self.image.apply(record)
        if not self.image.features:  # also if the first start died after the batch that starts its epoch
            self.commit(self._bootstrap_records())
        self.image.check_complete()
        check_levels(self.image.features)
        self.log.metadata_version = self.image.features[METADATA_VERSION_FEATURE]

    def commit(self, records: Sequence[Any]) -> None:
        """Write one operation to the disk, then apply it. On KafkaStorageError neither was done."""
        self.commit_all([MetadataOperation(records)])

    def commit_all(self, operations: Sequence[MetadataOperation]) -> None:
        """Write several operations with one fsync, then apply them. On KafkaStorageError none was. A crash may leave the first ones."""
        if not operations:
            return
        if self._is_settled and self._trimmer.is_due and not self.is_busy():
            self._trimmer.take_snapshot(self.image.to_records())
        self.log.append_all(operations)
        for record in chain.from_iterable(operation.records for operation in operations):
            self.image.apply(record)
        self.log.metadata_version = self.image.features[METADATA_VERSION_FEATURE]

    def settle(self) -> None:
        """Allow snapshots, because the start has finished what a crash interrupted."""
        self._is_settled = True

    def _bootstrap_records(self) -> list[Any]:
        path = f"{self._directory}/{BOOTSTRAP}"
        try:
            records = read_snapshot(self._files, path).records
        except FileNotFoundError:
            records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in default_levels().items()]
        if not any(isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION_FEATURE for record in records):
            records.insert(0, FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION))
        for record in records:
            if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION_FEATURE:
                self.log.metadata_version = record.feature_level
        levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
        return records + self._records_of_one_minimum(levels)

    def update_features(self, levels: Mapping[str, int]) -> None:
        """Finalize features at other levels, all or none. Raise KafkaStorageError if that fails."""
        features = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
        self.commit(self._records_of_one_minimum(levels) + features)

    def _records_of_one_minimum(self, levels: Mapping[str, int]) -> list[Any]:
        """Return the records that make min.insync.replicas one value for the cluster, as eligible leader replicas require.

        As in Apache Kafka 4.3.1 (maybeGenerateElrSafetyRecords), the static value becomes that of all brokers, unless they have one, and
        those of single brokers are removed.
        """
        if not levels.get(ELIGIBLE_LEADERS_FEATURE):
            return []
        brokers: dict[str, dict[str, str]] = {ALL_BROKERS: {}}
        brokers |= {name: config for (kind, name), config in self.image.configs.items() if kind == BROKER_RESOURCE}
        records = []
        for name, config in brokers.items():
            others = {key: value for key, value in config.items() if key != IN_SYNC_MIN}
            after = {IN_SYNC_MIN: str(self._in_sync_min)} | config if name == ALL_BROKERS else others
            records += config_records(BROKER_RESOURCE, name, config, after)
        return records

    def commit_config(self, resource_type: int, name: str, overrides: Mapping[str, str]) -> None:
        """Replace a resource's overrides. Only differences are written."""
        records = config_records(resource_type, name, self.image.config_of(resource_type, name), overrides)
        if records:
            self.commit(records)

    def raise_leader_epochs(self, partitions: Sequence[Partition]) -> None:
        """Raise leader epochs, so that clients check the ends of their logs (KIP-320), for example after an unclean stop."""
        changes = (self._leads(partition) for partition in partitions)
        while batch := list(islice(changes, RECORDS_IN_BATCH_MAX)):
            self.commit(batch)

    def resign(self, partitions: Sequence[Partition]) -> None:
        """Record at an orderly stop that these partitions have no leader, as Apache Kafka's controlled shutdown does; one fsync.

        A Kafka that opens the directory would otherwise assume that the last leader is alive. It starts to load the partitions of its
        coordinators, loses them when its own registration ends that leadership, and logs an error for each. minibroker does not need the
        record: a single broker leads all partitions that it can open. So it is written once, not at each stop.
        """
        led = [each for each in partitions if self.image.partition_record(each).leader == self._node_id]
        # With eligible leader replicas, a Kafka where this broker never registered empties the ISR and elects the last known leader.
        last = [self._node_id] if self.image.features.get(ELIGIBLE_LEADERS_FEATURE) else None
        changes = [
            PartitionChangeRecord(partition_id=each.index, topic_id=each.topic_id, leader=NO_LEADER, last_known_elr=last) for each in led
        ]
        starts = range(0, len(changes), RECORDS_IN_BATCH_MAX)
        self.commit_all([MetadataOperation(changes[start : start + RECORDS_IN_BATCH_MAX]) for start in starts])

    def _leads(self, partition: Partition) -> PartitionChangeRecord:
        known = self.image.partition_record(partition)
        change = PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id, leader=self._node_id)
        if known.isr == [self._node_id] and not known.eligible_leader_replicas and not known.last_known_elr:
            return change
        # Elect from the eligible leader replicas, where an orderly stop of Apache Kafka moves the last replica (KIP-966).
        change = replace(change, isr=[self._node_id])
        if known.eligible_leader_replicas or known.last_known_elr:
            change = replace(change, eligible_leader_replicas=[], last_known_elr=[])
        return change

    def is_allocated_producer_id(self, producer_id: int) -> bool:
        """Whether a producer id is in an allocated block, of this broker or of another that wrote the log before."""
        return producer_id < self.image.next_producer_id

    def allocate_producer_id(self) -> int:
        """Return a new producer id. Each block of 1,000 costs one fsync."""
        for producer_id in self._producer_ids:
            return producer_id
        first = self.image.next_producer_id
        self._take_producer_ids(first + PRODUCER_IDS_IN_BLOCK)
        self._producer_ids = iter(range(first, first + PRODUCER_IDS_IN_BLOCK))
        return next(self._producer_ids)

    def skip_producer_ids(self, end: int) -> None:
        """Do not allocate any producer id below `end`."""
        if self.image.next_producer_id < end:
            self._take_producer_ids(end)

    def _take_producer_ids(self, end: int) -> None:
        self.commit([ProducerIdsRecord(broker_id=self._node_id, broker_epoch=_NO_BROKER_EPOCH, next_producer_id=end)])
