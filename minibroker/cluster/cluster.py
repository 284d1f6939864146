"""What this broker holds: log directories, the metadata log, topics and partitions.

An operation checks everything, writes its records as one batch of the metadata log (fsynced; the topics of a request together), takes
them into the image, and then moves files; so a crash at any point leaves either nothing or something that the next start finishes.
Answers are final: a topic has its leader when `create_topic` returns, a name is free when `delete_topic` returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.configs.broker_configs import BrokerConfigs
from minibroker.cluster.configs.own_configs import OwnConfigs
from minibroker.cluster.configs.topic_config import check_overrides
from minibroker.cluster.directories.log_directory import LogDirectory, open_directories, random_uuid
from minibroker.cluster.directories.partition_logs import PartitionLogs
from minibroker.cluster.metadata.features import KRAFT_VERSION_FEATURE, TRANSACTION_VERSION_FEATURE, Update, check_updates
from minibroker.cluster.metadata.metadata_image import TOPIC_RESOURCE
from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX, MetadataLog
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.metadata.operation import STEP_RECORDS, Operation, Steps, run
from minibroker.cluster.metadata.trimming import TrimmingLimits
from minibroker.cluster.new_topic import NewTopic, partition_records, topic_records
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import INTERNAL_TOPICS, Topic
from minibroker.cluster.topic_rules import (
    check_assignments,
    check_increase,
    check_name,
    check_new_assignments,
    check_new_name,
    check_partition_count,
    check_replication_factor,
)
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import (
    ConfigurationError,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    LogDirNotFound,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from minibroker.schemas.internal.setting_records import ClientQuotaRecord
from minibroker.schemas.internal.topic_records import RemoveTopicRecord
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import MAX_FOLDER_NAME, future_folder_name

if TYPE_CHECKING:
    from minibroker.cluster.configs.group_config import GroupConfig
    from minibroker.cluster.leadership import Leadership
    from minibroker.log.copying import LogCopy

_LOG = logging.getLogger(__name__)

Charge = Callable[[int], None]  #: told of partitions that are about to be created or deleted


def free(_partition_count: int) -> None:
    """Nobody counts."""


class Cluster:
    """One node is the whole cluster. Errors: KafkaError kinds as answers, ConfigurationError from `open`."""

    def __init__(
        self, config: BrokerConfig, files: Files, clock: Clock, background: Background, directories: Sequence[LogDirectory]
    ) -> None:
        self.config = config
        self.node = Node(config)
        self.leadership: Leadership | None = None  #: where clients see several brokers, or leaders that a test moves; written by `lead`
        self.cluster_id = next(each.cluster_id for each in directories if each.offline_cause is None)
        self.log_directories = [each for each in directories if each.path in config.log_dirs]
        metadata_directory = config.metadata_log_dir or config.log_dirs[0]
        directory_id = next(each.directory_id for each in directories if each.path == metadata_directory)
        self._store = MetadataStore(
            files,
            metadata_directory,
            node_id=config.node_id,
            directory_id=directory_id,
            clock=clock,
            background=background,
            segment_bytes=config.metadata_log_segment_bytes,
            limits=TrimmingLimits(
                config.metadata_log_max_record_bytes_between_snapshots,
                config.metadata_log_max_snapshot_interval_ms,
                config.metadata_max_retention_bytes,
                config.metadata_max_retention_ms,
            ),
            in_sync_min=config.min_insync_replicas,
        )
        self.image = self._store.image
        self.topics: Mapping[str, Topic] = self.image.topics
        self.on_topic_deleted: list[Callable[[str], None]] = []  #: told the name of each topic that is gone
        self.on_all_offline: Callable[[], None] | None = None  #: called when the last log directory goes offline
        #: called with the records of client quotas that were set or removed
        self.on_quotas_changed: list[Callable[[Sequence[ClientQuotaRecord]], None]] = []
        self._broker_configs = BrokerConfigs(config, self._store)
        self.own_configs = OwnConfigs(config, self._store)  #: of groups and of client metrics
        self.clock = clock
        self._all_directories = directories
        self._files = files
        self._logs = PartitionLogs(
            config, self._store, self.log_directories, files=files, clock=clock, background=background, all_directories=directories
        )
        self._logs.on_all_offline = self._tell_all_offline
        self.cleaner = self._logs.cleaner

    @classmethod
    def open(cls, config: BrokerConfig, files: Files, clock: Clock, background: Background) -> Self:
        """Lock and read the log directories, replay the metadata log, open every partition.

        Raises:
            ConfigurationError: the broker must not start on these directories; nothing was changed, no lock is left.
        """
        directories = open_directories(
            files,
            config.log_dirs,
            metadata_dir=config.metadata_log_dir,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            clock=clock,
        )
        try:
            cluster = cls(config, files, clock, background, directories)
            cluster._load()
        except (OSError, KafkaError) as error:
            _release(directories)
            raise ConfigurationError(f"log.dirs: {error}") from error
        except BaseException:
            _release(directories)
            raise
        cluster._logs.start()
        return cluster

    @property
    def metadata_offset(self) -> int:
        """Last offset of the metadata log: the epoch of finalized features."""
        return self._store.log.log_end_offset - 1

    @property
    def metadata_log(self) -> MetadataLog:
        """Where the metadata log ends, and in which quorum and epoch; `_store` alone writes it."""
        return self._store.log

    @property
    def transaction_version(self) -> int:
        """The finalized level of the feature transaction.version (cluster/metadata/features.py)."""
        return self.feature_level(TRANSACTION_VERSION_FEATURE)

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature; 0 where there is none."""
        return self.image.features.get(name, 0)

    @property
    def features(self) -> dict[str, int]:
        """The finalized level of each feature, with kraft.version, which is not in the image."""
        kraft_version = self._store.log.quorum.kraft_version
        return self.image.features | ({KRAFT_VERSION_FEATURE: kraft_version} if kraft_version else {})

    def close(self, *, clean: bool = True) -> None:
        """Close logs, write checkpoints and the clean-shutdown markers, release the locks."""
        if clean:
            try:
                self._store.resign(self._logs.partitions())
            except KafkaError as error:
                _LOG.warning("the metadata log still names a leader of each partition, for an Apache Kafka that opens it next: %s", error)
        if self.leadership is not None and self.leadership.reassignments is not None:
            self.leadership.reassignments.stop()
        self._logs.close(clean=clean)
        self._store.log.close()
        _release(self._all_directories)

    def _tell_all_offline(self) -> None:
        if self.on_all_offline is not None:
            self.on_all_offline()

    # Look-ups

    def topic(self, name: str) -> Topic:
        """By name; UnknownTopicOrPartition."""
        topic = self.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition
        return topic

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """By id; UnknownTopicId."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId
        return topic

    def partition(self, topic: str, index: int) -> Partition:
        """By topic name; UnknownTopicOrPartition. The partition may be offline: its `log` then raises KafkaStorageError."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopicOrPartition
        return found.partitions[index]

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """By topic id; UnknownTopicId, UnknownTopicOrPartition."""
        found = self.image.topics_by_id.get(topic_id)
        if found is None:
            raise UnknownTopicId
        if not 0 <= index < len(found.partitions):
            raise UnknownTopicOrPartition
        return found.partitions[index]

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic, ready when this returns; arguments and errors as in `new_topic`."""
        self.create_topics([self.new_topic(name, partition_count=partition_count, replication_factor=replication_factor, configs=configs)])
        return self.topics[name]

    def new_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int = -1,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        beside: Collection[str] = (),
        charge: Charge = free,
    ) -> NewTopic:
        """A topic for `create_topics`, when nothing speaks against it.

        `partition_count` None: topic.partition.count.map, then num.partitions. `beside`: names of those that are to be created with
        it. When everything is right, `charge` is told how many partitions there are to be, and may refuse by a KafkaError.
        """
        check_new_name(name)
        self._check_free(name, beside)
        overrides = check_overrides(configs or {})
        if assignments:
            count = check_assignments(assignments, self.node_ids, self._alive_ids)
        else:
            check_replication_factor(replication_factor, len(self.node_ids))
            count = self.default_partition_count(name) if partition_count is None else partition_count
        check_partition_count(count)
        self._logs.check_online()
        charge(count)
        topic_id = random_uuid()
        assignment = [assignments[index] for index in range(count)] if assignments else None
        return NewTopic(name, topic_id, topic_records(name, topic_id, overrides), count, replication_factor, assignment)

    def create_topics(self, wanted: Sequence[NewTopic], *, at_first_use: bool = False) -> None:
        """Create them all with one fsync, ready when this returns. KafkaStorageError: none was created.

        Each is an operation of its own: a crash may leave the first ones without the others. `at_first_use`: no partition gets its files
        before it is used, for whoever makes more topics than will be.
        """
        run(self.create_topics_in_steps(wanted, at_first_use=at_first_use))

    def create_topics_in_steps(self, wanted: Sequence[NewTopic], *, at_first_use: bool = False) -> Steps[Mapping[str, KafkaError]]:
        """As `create_topics`, but yield while many partitions are prepared.

        Returns the errors of topics that cannot be created any more, because of what other requests created meanwhile.
        """
        operations: dict[str, Operation] = {}
        for new in wanted:
            operations[new.name] = yield from self._operation(new.name, new.topic_id, range(new.partition_count), new.records)
        refused: dict[str, KafkaError] = {}
        for new in wanted:
            try:
                self._check_free(new.name)
            except KafkaError as error:
                refused[new.name] = error
        created = [new for new in wanted if new.name not in refused]
        self._store.commit_all([operations[new.name] for new in created])
        if self.leadership is not None:
            for new in created:
                self.leadership.place(self.topics[new.name], new.assignment, new.replication_factor)
        self._logs.add((partition for new in created for partition in self.topics[new.name].partitions), at_first_use=at_first_use)
        return refused

    def _check_free(self, name: str, beside: Collection[str] = ()) -> None:
        if name in self.topics or name in beside:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        self.image.similar_names.check_collision(name, beside)

    def auto_create_topic(self, name: str) -> Topic:
        """The topic of that name, created if the configuration lets clients do so by asking.

        UnknownTopicOrPartition when it does not, InvalidTopicException for a name that no topic may have.
        """
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        check_name(name)
        if not self.config.auto_create_topics_enable or name in INTERNAL_TOPICS:
            raise UnknownTopicOrPartition
        return self.create_topic(name)

    def auto_create_topics(self, names: Iterable[str]) -> None:
        """Create the topics of these names with one fsync, those that `auto_create_topic` would create.

        KafkaStorageError: none was created.
        """
        new: dict[str, NewTopic] = {}
        for name in names if self.config.auto_create_topics_enable else ():
            if name not in self.topics and name not in INTERNAL_TOPICS:
                with suppress(KafkaError):  # who asks for that topic alone is told
                    new[name] = self.new_topic(name, beside=new)
        self.create_topics(list(new.values()))

    def default_partition_count(self, name: str) -> int:
        """Partitions of a topic whose creator does not say how many."""
        return self.config.topic_partition_count_map.get(name, self.config.num_partitions)

    def delete_topic(self, name: str) -> None:
        """As `delete_topics`; UnknownTopicOrPartition."""
        self.delete_topics([self.topic(name)])

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Delete topics of this cluster with one fsync; their names are free when this returns, their files go in the background.

        KafkaStorageError: none was deleted.
        """
        self._store.commit_all([Operation([RemoveTopicRecord(topic_id=topic.topic_id)]) for topic in topics])
        self._logs.remove([partition for topic in topics for partition in topic.partitions])
        if self.leadership is not None:
            self.leadership.forget(topics)
        for topic in topics:
            for hear in self.on_topic_deleted:
                hear(topic.name)

    def create_partitions_in_steps(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        charge: Charge = free,
    ) -> Steps[None]:
        """Grow a topic to `count` partitions; yield while many of them are prepared. `charge` as in new_topic."""
        while True:
            topic = self.topic(name)
            current = len(topic.partitions)
            check_increase(name, current, count)
            if assignments is not None:
                indexes = range(current, count)
                check_new_assignments(assignments, indexes, self.node_ids, self._alive_ids, self._replica_count(topic))
            charge(count - current)
            if validate_only:
                return
            charge = free  # once, however often the topic changes meanwhile
            operation = yield from self._operation(name, topic.topic_id, range(current, count))
            if self.topics.get(name) is topic and len(topic.partitions) == current:
                break
        self._store.commit_all([operation])
        if self.leadership is not None:
            self.leadership.grow(topic, current, assignments)
        self._logs.add(topic.partitions[current:])

    # Log directories

    def move_replica(self, topic: str, index: int, path: str) -> None:
        """Move a partition to another log directory, `path` as DescribeLogDirs names it, while it is used.

        Raises:
            InvalidTopicException: the topic's name is too long for the copy's folder.
            LogDirNotFound: `path` is not one of the log directories.
            KafkaStorageError: the directory or the partition is offline.
            UnknownTopicOrPartition: there is no such partition. It will be created in that directory.
        """
        if len(future_folder_name(f"{topic}-{index}", "0" * 32)) > MAX_FOLDER_NAME:
            raise InvalidTopicException("The topic name is too long.")
        directory = next((each for each in self.log_directories if each.absolute_path == path), None)
        if directory is None:
            raise LogDirNotFound(f"Log dir {path} is not found in the config.")
        if directory.offline_cause is not None:
            raise KafkaStorageError(f"Log directory {path} is offline")
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            self._logs.prefer(topic, index, directory)
            raise UnknownTopicOrPartition
        self._logs.move(found.partitions[index], directory)

    def future_logs(self, directory: LogDirectory) -> Mapping[tuple[str, int], LogCopy]:
        """The copies of partitions that move to a directory."""
        return self._logs.future_logs(directory)

    # Leaders

    @property
    def node_ids(self) -> Collection[int]:
        """Of the brokers that clients are told of."""
        return (self.node.node_id,) if self.leadership is None else self.leadership.nodes.keys()

    @property
    def _alive_ids(self) -> Collection[int]:
        return self.node_ids if self.leadership is None else self.leadership.alive

    def lead(self, nodes: Sequence[Node]) -> Leadership:
        """From now on clients see these brokers, this one among them; returns who leads what."""
        from minibroker.cluster.leadership import Leadership  # noqa: PLC0415  one broker alone does without
        from minibroker.cluster.replica_assignments import ReplicaAssignments  # noqa: PLC0415  as above

        for node in nodes:
            if node is not self.node:
                self._broker_configs.add(node)
        self.leadership = Leadership(self, nodes, ReplicaAssignments(self._files, self.config.log_dirs[0]))
        return self.leadership

    def _replica_count(self, topic: Topic) -> int:
        return 1 if self.leadership is None else len(self.leadership.standing(topic.partitions[0]).replicas)

    def truncate(self, partition: Partition, end_offset: int) -> None:
        """Lose the records of a partition from `end_offset` on: its next leader does not have them."""
        self._logs.truncate(partition, end_offset)

    def raise_leader_epochs(self, partitions: Sequence[Partition]) -> None:
        """Somebody leads these from here on, durably: another broker, or the same anew; KafkaStorageError: nothing was changed."""
        self._store.raise_leader_epochs(partitions)
        for partition in partitions:
            if partition.online_log is not None:
                partition.online_log.assign_leader_epoch(partition.leader_epoch)

    def finish_opening(self) -> None:
        """Open all logs of new partitions now, so that every log is in its directory's list."""
        self._logs.finish_opening()

    def enforce_retention(self, name: str | None = None) -> int:
        """Delete what retention of one topic, or of every one, no longer keeps, now; how many segments. UnknownTopicOrPartition."""
        return self._logs.maintenance.enforce_retention(self._logs.partitions() if name is None else self.topic(name).partitions)

    def compact(self, name: str | None = None) -> None:
        """Compact one topic, or every compacted one, now, as far as there is anything to do; its size changes when the work is done."""
        topics = self.topics.values() if name is None else (self.topic(name),)
        self.cleaner.compact(partition.online_log for topic in topics for partition in topic.partitions if partition.online_log is not None)

    # Configs

    def alter_topic_config(self, name: str, overrides: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Replace a topic's overrides; InvalidConfig, UnknownTopicOrPartition."""
        topic = self.topic(name)
        checked = check_overrides(overrides)
        if not validate_only:
            self._store.commit_config(TOPIC_RESOURCE, name, checked)
            self._logs.configure([topic])
            self._logs.maintenance.check(topic.partitions)  # unchanged, too: retention.ms=1 said again means the records written since

    def config_of(self, node_id: int) -> BrokerConfig:
        """Of one of the brokers that clients are told of; KeyError where there is none of that id."""
        return self._broker_configs.of(node_id)

    def alter_broker_config(self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the dynamic configs of a broker (its id) or of all brokers (""); InvalidConfig. The caller checks what may change."""
        if self._broker_configs.alter(name, overrides, validate_only=validate_only):
            self.own_configs.forget()
            self._logs.maintenance.check(self._logs.configure_all())

    def group_config(self, group_id: str) -> GroupConfig:
        """The configs of a group that are in force: its own within the broker's limits, else the broker's. Read them when they are used."""
        return self.own_configs.of_group(group_id)

    def update_features(self, updates: Sequence[Update], *, validate_only: bool = False) -> None:
        """Finalize features at other levels, all or none, with effect from the next request on; InvalidUpdateVersion."""
        levels = check_updates(self.features, updates, node_id=self.node.node_id)
        if validate_only:
            return
        if levels.pop(KRAFT_VERSION_FEATURE, None) is not None:
            self._store.log.record_voters()
        if levels:
            self._store.update_features(levels)
            self._broker_configs.load()

    def keep(self, records: Sequence[Any]) -> None:
        """Write records of quotas and credentials (kept_records.py) that were checked, all or none; PolicyViolation: too many."""
        if len(records) > RECORDS_IN_BATCH_MAX:
            raise PolicyViolation(f"Unable to perform the operation: it needs more than {RECORDS_IN_BATCH_MAX} records")
        if records:
            self._store.commit(records)
        quotas = [record for record in records if isinstance(record, ClientQuotaRecord)]
        if quotas:
            for hear in self.on_quotas_changed:
                hear(quotas)

    def skip_producer_ids(self, end: int) -> None:
        """Never give out a producer id below `end`."""
        self._store.skip_producer_ids(end)

    def allocate_producer_id(self) -> int:
        """A producer id that nobody had before; one fsync for each block of 1,000."""
        return self._store.allocate_producer_id()

    # Inside

    def _operation(self, name: str, topic_id: UUID, indexes: range, first_records: Sequence[Any] = ()) -> Steps[Operation]:
        """Prepare the operation that creates partitions; `first_records` come before theirs."""
        records = list(first_records)
        for start in range(0, len(indexes), STEP_RECORDS):
            if start:
                yield
            step = indexes[start : start + STEP_RECORDS]
            records += partition_records(topic_id, step, self.node.node_id, self._logs.choose_directories(name, step))
        operation = Operation(records)
        yield from operation.encode(self._store.log.metadata_version)
        return operation

    def _load(self) -> None:
        self._store.load()
        self._broker_configs.load()
        self._logs.open_all()
        self._store.settle()


def _release(directories: Sequence[LogDirectory]) -> None:
    for directory in directories:
        with suppress(OSError):
            directory.release()
