"""Request what brokers know without a scan: bounds, offsets by time, sizes, producers, transactions, groups.

Without bounds there is no report. Other facts are left out with a note if a broker is too old or rejects the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from minibroker.client.client import Client
from minibroker.client.errors import ClientError, describe
from minibroker.client.group_offsets import SHARE, CommittedOffset, Offsets, committed_offsets, share_offsets
from minibroker.client.groups import list_groups
from minibroker.client.offsets import MAX_TIMESTAMP, READ_UNCOMMITTED, FoundOffset, bounds, list_offsets
from minibroker.client.routing import TopicPartition
from minibroker.client.topics import describe_configs, describe_log_dirs
from minibroker.client.transactions import (
    OPEN_STATES,
    DescribedTransaction,
    describe_producers,
    describe_transactions,
    list_transactions,
)
from minibroker.errors import KafkaError
from minibroker.spark.report.results import Facts, GroupOffset, PartitionFacts, Producer, TimeOffset, TransactionInfo

T = TypeVar("T")


class ClusterFacts:
    """Collects the facts of one cluster; `notes` list what it did not report."""

    def __init__(self, client: Client, *, isolation: int) -> None:
        self._client = client
        self._isolation = isolation
        self.notes: list[str] = []

    def collect(self, keys: Sequence[TopicPartition], times: Sequence[int]) -> Facts:
        """Return the facts of these partitions. ClientError or KafkaError if their bounds are not available."""
        limits = self._all(bounds(self._client, keys))
        by_time = {time: self._all(list_offsets(self._client, dict.fromkeys(keys, time), isolation=self._isolation)) for time in times}
        largest = self._optional("largest timestamps", lambda: self._all(self._largest(keys))) or {}
        leaders = self._leaders({topic for topic, _ in keys})
        sizes = self._optional("sizes", lambda: self._sizes(leaders)) or {}
        producers = self._producers(keys)
        ends = {key: found.high_watermark for key, found in limits.items()}
        return Facts(
            partitions={
                key: PartitionFacts(
                    leader=leaders.get(key),
                    bounds=limits[key],
                    size=sizes.get(key),
                    largest=_time_offset(MAX_TIMESTAMP, largest[key]) if key in largest else None,
                    by_time=tuple(_time_offset(time, by_time[time][key]) for time in times),
                    producers=tuple(producers.get(key, ())),
                )
                for key in keys
            },
            transactions=self._optional("transactions", lambda: self._transactions(keys, producers)) or (),
            groups=self._optional("groups", lambda: self._groups(ends)) or (),
            compacted=self._optional("configs of topics", lambda: self._compacted({topic for topic, _ in keys})) or {},
        )

    @staticmethod
    def _all(answers: Mapping[TopicPartition, T | KafkaError]) -> dict[TopicPartition, T]:
        found: dict[TopicPartition, T] = {}
        for key, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise answer
            found[key] = answer
        return found

    def _optional(self, what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except (KafkaError, ClientError) as error:
            self._note(what, error)
            return None

    def _note(self, what: str, error: Exception) -> None:
        self.notes.append(f"{what} are unknown: {describe(error)}")

    def _largest(self, keys: Iterable[TopicPartition]) -> Mapping[TopicPartition, FoundOffset | KafkaError]:
        return list_offsets(self._client, dict.fromkeys(keys, MAX_TIMESTAMP), isolation=READ_UNCOMMITTED)

    def _leaders(self, topics: Collection[str]) -> dict[TopicPartition, int]:
        answer = self._client.metadata(sorted(topics))
        return {(str(topic.name), each.partition_index): each.leader_id for topic in answer.topics for each in topic.partitions}

    def _sizes(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the bytes on the disks of leaders."""
        found: dict[TopicPartition, int] = {}
        for node_id, answer in describe_log_dirs(self._client, set(leaders.values())).items():
            if isinstance(answer, KafkaError):
                self._note(f"sizes on broker {node_id}", answer)
                continue
            for log_dir in answer:
                for topic in log_dir.topics:
                    for each in topic.partitions:
                        key = (topic.name, each.partition_index)
                        if leaders.get(key) == node_id and not each.is_future_key:
                            found[key] = each.partition_size
        return found

    def _producers(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, list[Producer]]:
        answers = self._optional("producers", lambda: describe_producers(self._client, keys)) or {}
        found = {}
        for key, answer in answers.items():
            if isinstance(answer, KafkaError):
                self._note(f"producers of {key[0]}-{key[1]}", answer)
                continue
            found[key] = [
                Producer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in answer
            ]
        return found

    def _transactions(
        self, keys: Collection[TopicPartition], producers: Mapping[TopicPartition, Sequence[Producer]]
    ) -> tuple[TransactionInfo, ...]:
        """Return the transactional ids of producers in these partitions, and those with an open transaction in one of them."""
        producer_ids = {producer.producer_id for each in producers.values() for producer in each}
        listed = [each for each in list_transactions(self._client) if each.state in OPEN_STATES or each.producer_id in producer_ids]
        answers = describe_transactions(self._client, [each.transactional_id for each in listed])
        chosen = set(keys)
        return tuple(
            TransactionInfo(
                answer.transactional_id,
                answer.producer_id,
                answer.producer_epoch,
                answer.state,
                answer.timeout_ms,
                None if answer.start_timestamp < 0 else answer.start_timestamp,
                tuple(f"{topic}-{partition}" for topic, partition in answer.partitions),
            )
            for _, answer in sorted(answers.items())
            if isinstance(answer, DescribedTransaction) and (answer.producer_id in producer_ids or not chosen.isdisjoint(answer.partitions))
        )

    def _groups(self, ends: Mapping[TopicPartition, int]) -> tuple[GroupOffset, ...]:
        listed = {each.group: each for each in list_groups(self._client)}
        shared = [name for name, each in listed.items() if each.type == SHARE]
        others = [name for name in listed if name not in shared]
        answers: dict[str, Offsets | KafkaError] = {}
        if others:
            answers |= committed_offsets(self._client, others)
        if shared:
            answers |= self._optional("share groups", lambda: share_offsets(self._client, shared)) or {}
        found = []
        for name, offsets in sorted(answers.items()):
            if isinstance(offsets, KafkaError):
                self._note(f"offsets of group {name}", offsets)
                continue
            for (topic, partition), committed in offsets.items():
                if isinstance(committed, CommittedOffset) and (topic, partition) in ends:
                    lag = committed.lag
                    if listed[name].type != SHARE:
                        lag = ends[topic, partition] - committed.offset
                    found.append(GroupOffset(name, listed[name].type, listed[name].state, topic, partition, committed.offset, lag))
        return tuple(found)

    def _compacted(self, topics: Collection[str]) -> dict[str, bool]:
        configs = describe_configs(self._client, sorted(topics))
        return {
            topic: "compact" in (config.value or "")
            for topic, each in configs.items()
            for config in each
            if config.name == "cleanup.policy"
        }


def _time_offset(time: int, found: FoundOffset) -> TimeOffset:
    offset = None if found.offset < 0 else found.offset
    return TimeOffset(time, offset, None if offset is None or found.timestamp < 0 else found.timestamp)
