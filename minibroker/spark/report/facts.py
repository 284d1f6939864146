"""Facts of partitions that are known without a scan, from brokers (cluster_facts) or files (directory_facts)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minibroker.client.leaders import TopicPartition
from minibroker.client.offsets import Bounds
from minibroker.spark.report.results import GroupOffset, TimeOffset, TransactionInfo


class Producer(NamedTuple):
    """A producer, as DescribeProducers returns it; -1 for unknown values, and for no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionFacts(NamedTuple):
    """The facts of one partition; see PartitionInfo."""

    leader: int | None
    bounds: Bounds
    size: int | None
    largest: TimeOffset | None
    by_time: tuple[TimeOffset, ...]
    producers: tuple[Producer, ...]


class Facts(NamedTuple):
    """All facts, by topic and partition. `compacted` has the topics whose configuration is known, or was found on disk."""

    partitions: Mapping[TopicPartition, PartitionFacts]
    transactions: tuple[TransactionInfo, ...]
    groups: tuple[GroupOffset, ...]
    compacted: Mapping[str, bool]
