"""What is known of partitions without a scan, whoever told it: brokers (cluster_facts) or the files of one (directory_facts)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minibroker.client.leaders import TopicPartition
from minibroker.client.offsets import Bounds
from minibroker.spark.report.results import GroupOffset, TimeOffset, TransactionInfo


class Producer(NamedTuple):
    """As DescribeProducers tells: -1 where nothing is known, or no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionFacts(NamedTuple):
    """One partition; see PartitionInfo."""

    leader: int | None
    bounds: Bounds
    size: int | None
    largest: TimeOffset | None
    by_time: tuple[TimeOffset, ...]
    producers: tuple[Producer, ...]


class Facts(NamedTuple):
    """All of them, by topic and partition. `compacted`: of topics whose configuration is known; for a directory, see `cleaned`."""

    partitions: Mapping[TopicPartition, PartitionFacts]
    transactions: tuple[TransactionInfo, ...]
    groups: tuple[GroupOffset, ...]
    compacted: Mapping[str, bool]
