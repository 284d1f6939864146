"""`Cluster`: the topics of this broker, and the operations that create, change and delete them.

    metadata    the metadata log, its image, and blocks of producer ids (`metadata/metadata_store.py`)
    logs        the logs of all partitions in the log directories (`directories/partition_logs.py`)
    configs     dynamic configs of topics, brokers, groups and client metrics (`configs/cluster_configs.py`)

An operation checks everything first. It then writes its records as one batch of the metadata log (fsynced; the topics of one request
together), applies them to the image, and changes files last. A crash at any point leaves either nothing or something that the next start
finishes. Answers are final: a topic has its leader when `create_topic` returns, and a name is free when `delete_topic` returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self
from uuid import UUID

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.configs.cluster_configs import ClusterConfigs
from minibroker.cluster.configs.topic_config import check_overrides
from minibroker.cluster.directories.log_directory import LogDirectory, open_directories, random_uuid
from minibroker.cluster.directories.partition_logs import PartitionLogs
from minibroker.cluster.metadata.features import KRAFT_VERSION_FEATURE, TRANSACTION_VERSION_FEATURE, FeatureUpdate, check_updates
from minibroker.cluster.metadata.frame import STEP_RECORDS, MetadataOperation, Steps, run
from minibroker.cluster.metadata.metadata_image import MetadataImage, partition_records, topic_records
from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX
from minibroker.cluster.metadata.metadata_store import MetadataStore
from minibroker.cluster.metadata.trimming import TrimmingLimits
from minibroker.cluster.nodes import Leadership, Node, SingleBroker
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

_LOG = logging.getLogger(__name__)

Charge = Callable[[int], None]  #: called with the number of partitions to be created or deleted; may refuse by a KafkaError


def free(_partition_count: int) -> None:
    """Charge nothing."""


class NewTopic(NamedTuple):
    """A topic that was checked and charged, and is not in the metadata log yet."""

    name: str
    topic_id: UUID
    records: Sequence[Any]  #: of the topic and its configs, without partitions
    partition_count: int
    replication_factor: int  #: -1: the default
    assignment: Sequence[Sequence[int]] | None  #: replicas of each partition, if the request assigns them

    def draft(self) -> Topic:
        """Return the topic as it will be, without partitions. No other image has it."""
        image = MetadataImage()
        for record in self.records:
            image.apply(record)
        return image.topics[self.name]


class Cluster:
    """One node that is the whole cluster. `open` raises ConfigurationError; all other errors are KafkaErrors, which are answers."""

    def __init__(
        self, config: BrokerConfig, files: Files, clock: Clock, background: Background, directories: Sequence[LogDirectory]
    ) -> None:
        self.config = config
        self.node = Node(config)
        self.cluster_id = next(each.cluster_id for each in directories if each.offline_cause is None)
        self.log_directories = [each for each in directories if each.path in config.log_dirs]
        metadata_directory = config.metadata_log_dir or config.log_dirs[0]
        directory_id = next(each.directory_id for each in directories if each.path == metadata_directory)
        self.metadata = MetadataStore(
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
        self.image = self.metadata.image
        self.leadership: Leadership = SingleBroker(config.node_id, self.image)  #: written by `simulate`
        self.topics: Mapping[str, Topic] = self.image.topics
        self.on_topic_deleted: list[Callable[[str], None]] = []  #: called with the name of each deleted topic
        #: called with the records of client quotas that were set or removed
        self.on_quotas_changed: list[Callable[[Sequence[ClientQuotaRecord]], None]] = []
        self.clock = clock
        self._all_directories = directories
        self.logs = PartitionLogs(
            config, self.metadata, self.log_directories, files=files, clock=clock, background=background, all_directories=directories
        )
        self.configs = ClusterConfigs(config, self.metadata, self.logs)

    @classmethod
    def open(cls, config: BrokerConfig, files: Files, clock: Clock, background: Background) -> Self:
        """Lock and read the log directories, replay the metadata log, and open all partitions.

        Raises:
            ConfigurationError: the broker must not start on these directories. Nothing was changed, and no lock is held.
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
            cluster.metadata.load()
            cluster.configs.load_brokers()
            cluster.logs.open_all()
            cluster.metadata.settle()
        except (OSError, KafkaError) as error:
            _release(directories)
            raise ConfigurationError(f"log.dirs: {error}") from error
        except BaseException:
            _release(directories)
            raise
        cluster.logs.start()
        return cluster

    @property
    def transaction_version(self) -> int:
        """The finalized level of the feature transaction.version."""
        return self.feature_level(TRANSACTION_VERSION_FEATURE)

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature; 0 if it has none."""
        return self.image.features.get(name, 0)

    @property
    def features(self) -> dict[str, int]:
        """The finalized level of each feature, including kraft.version, which is not in the image."""
        kraft_version = self.metadata.log.quorum.kraft_version
        return self.image.features | ({KRAFT_VERSION_FEATURE: kraft_version} if kraft_version else {})

    def close(self, *, clean: bool = True) -> None:
        """Close logs, write checkpoints and the clean-shutdown markers, release the locks."""
        if clean:
            try:
                self.metadata.resign(self.logs.partitions())
            except KafkaError as error:
                _LOG.warning(
                    "could not end the leaderships in the metadata log: %s (an Apache Kafka that opens the directory logs errors)", error
                )
        self.leadership.close()
        self.logs.close(clean=clean)
        self.metadata.log.close()
        _release(self._all_directories)

    # Look-ups

    def topic(self, name: str) -> Topic:
        """Return a topic by its name, or raise UnknownTopicOrPartition."""
        topic = self.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition
        return topic

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """Return a topic by its id, or raise UnknownTopicId."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId
        return topic

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition, or raise UnknownTopicOrPartition. If it is offline, its `log` raises KafkaStorageError."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopicOrPartition
        return found.partitions[index]

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """Return a partition by its topic's id, or raise UnknownTopicId or UnknownTopicOrPartition."""
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
        """Create a topic, which clients may use when this returns. Arguments and errors are those of `new_topic`."""
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
        """Check a topic that `create_topics` is to create.

        Args:
            name: Its name.
            partition_count: None means topic.partition.count.map, then num.partitions.
            replication_factor: -1 means the default.
            assignments: Replicas by partition index, instead of a count and a factor.
            configs: Overrides.
            beside: Names of other topics that will be created with it.
            charge: Called with the number of partitions after all checks. It may refuse by a KafkaError.

        Raises:
            KafkaError: A kind for each rule that is violated.
        """
        check_new_name(name)
        self._check_free(name, beside)
        overrides = check_overrides(configs or {}, has_registry=self.config.has_schema_registry)
        if assignments:
            count = check_assignments(assignments, self.node_ids, self.leadership.alive_ids)
        else:
            check_replication_factor(replication_factor, len(self.node_ids))
            count = self.default_partition_count(name) if partition_count is None else partition_count
        check_partition_count(count)
        self.logs.check_online()
        charge(count)
        topic_id = random_uuid()
        assignment = [assignments[index] for index in range(count)] if assignments else None
        return NewTopic(name, topic_id, topic_records(name, topic_id, overrides), count, replication_factor, assignment)

    def create_topics(self, new_topics: Sequence[NewTopic], *, at_first_use: bool = False) -> None:
        """Create topics with one fsync. Clients may use them when this returns.

        Each is a separate operation: a crash may leave the first ones without the others. With `at_first_use` a partition gets its files
        when it is used first, for callers that create more topics than will be used.

        Raises:
            KafkaStorageError: None was created.
        """
        run(self.create_topics_in_steps(new_topics, at_first_use=at_first_use))

    def create_topics_in_steps(self, new_topics: Sequence[NewTopic], *, at_first_use: bool = False) -> Steps[Mapping[str, KafkaError]]:
        """Do what `create_topics` does, and yield between parts of the preparation.

        Returns:
            Errors by name, of topics that conflict with a topic that another request created meanwhile.
        """
        operations: dict[str, MetadataOperation] = {}
        for new in new_topics:
            operations[new.name] = yield from self._operation(new.name, new.topic_id, range(new.partition_count), new.records)
        refused: dict[str, KafkaError] = {}
        for new in new_topics:
            try:
                self._check_free(new.name)
            except KafkaError as error:
                refused[new.name] = error
        created = [new for new in new_topics if new.name not in refused]
        self.metadata.commit_all([operations[new.name] for new in created])
        for new in created:
            self.leadership.place(self.topics[new.name], new.assignment, new.replication_factor)
        self.logs.add((partition for new in created for partition in self.topics[new.name].partitions), at_first_use=at_first_use)
        return refused

    def _check_free(self, name: str, beside: Collection[str] = ()) -> None:
        if name in self.topics or name in beside:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        self.image.similar_names.check_collision(name, beside)

    def auto_create_topic(self, name: str) -> Topic:
        """Return the topic of that name. Create it first if auto.create.topics.enable allows it.

        Raises:
            UnknownTopicOrPartition: There is no such topic, and it may not be created.
            InvalidTopicException: No topic may have that name.
        """
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        check_name(name)
        if not self.config.auto_create_topics_enable or name in INTERNAL_TOPICS:
            raise UnknownTopicOrPartition
        return self.create_topic(name)

    def auto_create_topics(self, names: Iterable[str]) -> None:
        """Create those of these topics that `auto_create_topic` would create, with one fsync.

        Raises:
            KafkaStorageError: None was created.
        """
        new: dict[str, NewTopic] = {}
        for name in names if self.config.auto_create_topics_enable else ():
            if name not in self.topics and name not in INTERNAL_TOPICS:
                with suppress(KafkaError):  # `auto_create_topic` reports it for that topic
                    new[name] = self.new_topic(name, beside=new)
        self.create_topics(list(new.values()))

    def default_partition_count(self, name: str) -> int:
        """The number of partitions of a topic whose creator does not specify one."""
        return self.config.topic_partition_count_map.get(name, self.config.num_partitions)

    def delete_topic(self, name: str) -> None:
        """Delete one topic, or raise UnknownTopicOrPartition."""
        self.delete_topics([self.topic(name)])

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Delete topics with one fsync. Their names are free when this returns; their files are removed in the background.

        Raises:
            KafkaStorageError: None was deleted.
        """
        self.metadata.commit_all([MetadataOperation([RemoveTopicRecord(topic_id=topic.topic_id)]) for topic in topics])
        self.logs.remove([partition for topic in topics for partition in topic.partitions])
        self.leadership.forget(topics)
        for topic in topics:
            for callback in self.on_topic_deleted:
                callback(topic.name)

    def create_partitions_in_steps(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        charge: Charge = free,
    ) -> Steps[None]:
        """Grow a topic to `count` partitions, and yield between parts of the preparation. `charge` is that of `new_topic`."""
        while True:
            topic = self.topic(name)
            current = len(topic.partitions)
            check_increase(name, current, count)
            if assignments is not None:
                indexes = range(current, count)
                check_new_assignments(
                    assignments, indexes, self.node_ids, self.leadership.alive_ids, self.leadership.replication_factor(topic)
                )
            charge(count - current)
            if validate_only:
                return
            charge = free  # charge only once, even if the topic changes meanwhile and the loop repeats
            operation = yield from self._operation(name, topic.topic_id, range(current, count))
            if self.topics.get(name) is topic and len(topic.partitions) == current:
                break
        self.metadata.commit_all([operation])
        self.leadership.grow(topic, current, assignments)
        self.logs.add(topic.partitions[current:])

    # Log directories

    def move_replica(self, topic: str, index: int, path: str) -> None:
        """Start to move a partition to another log directory. Clients use it meanwhile.

        Args:
            topic: Name of its topic.
            index: Its index.
            path: The destination, as DescribeLogDirs names it.

        Raises:
            InvalidTopicException: The topic's name is too long for the copy's folder.
            LogDirNotFound: `path` is not one of the log directories.
            KafkaStorageError: The directory or the partition is offline.
            UnknownTopicOrPartition: There is no such partition. If it is created later, it is created in that directory.
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
            self.logs.prefer(topic, index, directory)
            raise UnknownTopicOrPartition
        self.logs.move(found.partitions[index], directory)

    # Leaders

    @property
    def node_ids(self) -> Collection[int]:
        """The ids of the brokers that clients see."""
        return self.leadership.node_ids

    def simulate(self, leadership: Leadership, others: Iterable[Node]) -> None:
        """Present this cluster as several brokers, of which this is one, from now on."""
        for node in others:
            self.configs.add_broker(node)
        self.leadership = leadership

    # Features, quotas and credentials

    def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> None:
        """Finalize features at other levels, all of them or none. They take effect at the next request.

        Raises:
            InvalidUpdateVersion: A level cannot be finalized.
        """
        levels = check_updates(self.features, updates, node_id=self.node.node_id)
        if validate_only:
            return
        if levels.pop(KRAFT_VERSION_FEATURE, None) is not None:
            self.metadata.log.record_voters()
        if levels:
            self.metadata.update_features(levels)
            self.configs.load_brokers()

    def write_quotas_and_credentials(self, records: Sequence[Any]) -> None:
        """Write checked records of client quotas and SCRAM credentials, all of them or none.

        Raises:
            PolicyViolation: They do not fit into one batch of the metadata log.
        """
        if len(records) > RECORDS_IN_BATCH_MAX:
            raise PolicyViolation(f"Unable to perform the operation: it needs more than {RECORDS_IN_BATCH_MAX} records")
        if records:
            self.metadata.commit(records)
        quotas = [record for record in records if isinstance(record, ClientQuotaRecord)]
        if quotas:
            for callback in self.on_quotas_changed:
                callback(quotas)

    def _operation(self, name: str, topic_id: UUID, indexes: range, first_records: Sequence[Any] = ()) -> Steps[MetadataOperation]:
        """Prepare the operation that creates partitions. `first_records` come before theirs."""
        records = list(first_records)
        for start in range(0, len(indexes), STEP_RECORDS):
            if start:
                yield
            step = indexes[start : start + STEP_RECORDS]
            records += partition_records(topic_id, step, self.node.node_id, self.logs.choose_directories(name, step))
        operation = MetadataOperation(records)
        yield from operation.encode(self.metadata.log.metadata_version)
        return operation


def _release(directories: Sequence[LogDirectory]) -> None:
    for directory in directories:
        with suppress(OSError):
            directory.release()
