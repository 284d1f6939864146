"""The metadata log and the image of it, moved together: a record is in the image exactly when it is on the disk.

Also here, because they are nothing but records: which configs change, and blocks of producer ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from minibroker.clock import Clock
from minibroker.cluster.metadata_frame import METADATA_VERSION, METADATA_VERSION_FEATURE, MIN_METADATA_VERSION
from minibroker.cluster.metadata_image import MetadataImage
from minibroker.cluster.metadata_log import RECORDS_IN_BATCH_MAX, MetadataLog
from minibroker.cluster.partition import Partition
from minibroker.errors import ConfigurationError
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from minibroker.schemas.internal.topic_records import PartitionChangeRecord
from minibroker.storage.files import Files

PRODUCER_IDS_IN_BLOCK = 1000  #: as Kafka's ProducerIdsBlock
_NO_BROKER_EPOCH = -1  #: this broker does not register itself: nobody but it reads the log


class MetadataStore:
    """What the cluster knows, durably. `load` first, once."""

    def __init__(self, files: Files, folder: str, *, node_id: int, clock: Clock) -> None:
        self.image = MetadataImage()
        self.log = MetadataLog(files, folder, node_id=node_id, clock=clock)
        self._node_id = node_id
        self._producer_ids: Iterator[int] = iter(())

    def load(self) -> None:
        """Replay the log; begin a new one with the metadata.version that says how its records are written.

        Raises:
            ConfigurationError: damage, contradictions, or a metadata.version that is not known.
        """
        is_new = True  # also when the first start died behind the batch that begins its epoch
        for record in self.log.replay():
            is_new = False
            self.image.apply(record)
        if is_new:
            self.commit([FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION)])
        level = self.image.features.get(METADATA_VERSION_FEATURE, 0)
        if not MIN_METADATA_VERSION <= level <= METADATA_VERSION:
            raise ConfigurationError(
                f"the metadata log has metadata.version {level}: {MIN_METADATA_VERSION} to {METADATA_VERSION} can be served"
            )
        self.log.metadata_version = level

    def commit(self, records: Sequence[Any]) -> None:
        """One operation: on the disk, then in the image; KafkaStorageError: in neither."""
        self.log.append(records)
        for record in records:
            self.image.apply(record)

    def commit_config(self, resource_type: int, name: str, wanted: Mapping[str, str]) -> None:
        """Make a resource's overrides what is wanted, writing only what differs."""
        current = self.image.config_of(resource_type, name)
        changed = [config_record(resource_type, name, key, value) for key, value in wanted.items() if current.get(key) != value]
        removed = [config_record(resource_type, name, key, None) for key in current if key not in wanted]
        if changed or removed:
            self.commit(changed + removed)

    def raise_leader_epochs(self, partitions: Sequence[Partition]) -> None:
        """After an unclean stop the end of a log may be gone: a new leader epoch tells clients to check theirs (KIP-320)."""
        changes = (
            PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id, leader=self._node_id)
            for partition in partitions
        )
        while batch := list(islice(changes, RECORDS_IN_BATCH_MAX)):
            self.commit(batch)

    def is_allocated_producer_id(self, producer_id: int) -> bool:
        """Whether a producer id is of a block that was given out, by this broker or by whoever wrote the log before."""
        return producer_id < self.image.next_producer_id

    def allocate_producer_id(self) -> int:
        """A producer id that nobody had before; one fsync for each block of 1,000."""
        for producer_id in self._producer_ids:
            return producer_id
        first = self.image.next_producer_id
        after = first + PRODUCER_IDS_IN_BLOCK
        self.commit([ProducerIdsRecord(broker_id=self._node_id, broker_epoch=_NO_BROKER_EPOCH, next_producer_id=after)])
        self._producer_ids = iter(range(first, after))
        return next(self._producer_ids)


def config_record(resource_type: int, name: str, key: str, value: str | None) -> ConfigRecord:
    """One override; None takes it away."""
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
