"""Requests for topics and configs: Metadata, CreateTopics, DeleteTopics, CreatePartitions, configs, DescribeTopicPartitions."""

from __future__ import annotations

from random import Random
from typing import Any, Final
from uuid import UUID

from minibroker.schemas import (
    k03_metadata,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k32_describe_configs,
    k33_alter_configs,
    k37_create_partitions,
    k44_incremental_alter_configs,
    k60_describe_cluster,
    k75_describe_topic_partitions,
)
from minibroker.wire.schema import NIL_UUID
from tests.differential.data import UNKNOWN, Data, Operation
from tests.differential.twins import Twins

BAD_NAMES: Final = ("", ".", "..", "a/b", "x" * 250, "grüße", "a b", "__cluster_metadata")
CONFIGS: Final = (
    ("retention.ms", "-1"), ("retention.ms", "1"), ("retention.ms", "soon"), ("retention.ms", "-2"), ("max.message.bytes", "5000"),
    ("max.message.bytes", "-1"), ("segment.bytes", "1048576"), ("segment.bytes", "13"), ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"), ("cleanup.policy", "burn"), ("cleanup.policy", ""), ("compression.type", "lz4"),
    ("compression.type", "best"), ("message.timestamp.type", "LogAppendTime"), ("no.such.config", "1"), ("flush.messages", "0"),
    ("retention.ms", None), ("min.insync.replicas", "1"), ("min.insync.replicas", "0"), ("preallocate", "yes"), ("preallocate", "true"),
    ("retention.bytes", " 7 "), ("compression.gzip.level", "10"), ("compression.gzip.level", "9"),
    ("unclean.leader.election.enable", "true"),
    ("segment.ms", "0"), ("index.interval.bytes", "99999999999"), ("min.cleanable.dirty.ratio", "1.5"), ("file.delete.delay.ms", "60000"),
)  # fmt: skip
ASSIGNMENTS: Final[tuple[tuple[tuple[int, list[int]], ...], ...]] = (
    ((0, [1]), (1, [1])),
    ((0, [2]),),
    ((1, [1]),),
    ((0, [1, 1]),),
    ((0, []),),
    ((0, [1]), (0, [1])),
)


class Admin:
    """Draws requests; `data` knows which topics there are."""

    def __init__(self, random: Random, twins: Twins, data: Data) -> None:
        self.random = random
        self.twins = twins
        self.data = data
        self.made = 0  #: topics, for their names

    def name(self) -> str:
        """Of a topic that is there, mostly."""
        kind = self.random.random()
        if kind < 0.1:
            return self.random.choice((UNKNOWN, *BAD_NAMES))
        return self.random.choice(sorted(self.data.partitions))

    def metadata(self) -> Operation:
        """Of names, ids, all, none. Nothing is created: Kafka creates behind its answer, we before it."""
        draw = self.random
        version = draw.randint(0, 13)
        names = [self.name() for _ in range(draw.choice((0, 1, 2, 4)))]
        if version < 4:
            names = [name for name in names if name != UNKNOWN]
        by_id = version >= 10 and draw.random() < 0.4
        is_all = version >= 1 and draw.random() < 0.1
        fields: dict[str, Any] = {}
        if version >= 4:
            fields["allow_auto_topic_creation"] = False
        if version >= 8:
            fields["include_topic_authorized_operations"] = draw.random() < 0.5
        if 8 <= version <= 10:
            fields["include_cluster_authorized_operations"] = draw.random() < 0.5
        shapes = [draw.choice(("id", "id", "id", "both")) if by_id else "name" for _ in names]

        def make(side: int) -> k03_metadata.Request:
            topics = [self._asked(name, shape, side) for name, shape in zip(names, shapes, strict=True)]
            return k03_metadata.Request(topics=None if is_all else topics, **fields)

        return Operation(k03_metadata, version, make, note=f"all {is_all} {list(zip(names, shapes, strict=True))} {fields}")

    def _asked(self, name: str, shape: str, side: int) -> k03_metadata.Topic:
        topic_id = self.twins.topic_id(name, side) if shape in {"id", "both"} else NIL_UUID
        return k03_metadata.Topic(name=name if shape in {"name", "both"} else None, topic_id=topic_id)

    def create_topics(self) -> Operation:
        """Valid and invalid ones; the caller looks at the answers."""
        draw = self.random
        version = draw.randint(2, 7)
        topics = [self._new_topic(version) for _ in range(draw.choice((1, 1, 2)))]
        if draw.random() < 0.05:
            topics.append(topics[0])
        request = k19_create_topics.Request(topics=topics, timeout_ms=10_000, validate_only=draw.random() < 0.4)
        return Operation(k19_create_topics, version, lambda _: request, note=str(request))

    def _new_topic(self, version: int) -> k19_create_topics.Topic:
        draw = self.random
        self.made += 1
        name = f"made-{self.made}"
        if draw.random() < 0.15:
            name = draw.choice((*BAD_NAMES, *sorted(self.data.partitions)))
        elif draw.random() < 0.1:
            name = f"made.{self.made}_x"
        default = -1 if version >= 4 else 1
        count = draw.choice((1, 1, 1, 2, 3, default, 0, -2, 10_001) if draw.random() < 0.3 else (1, 2))
        factor = draw.choice((1, 1, default, default, 0, -2, 2) if draw.random() < 0.3 else (1, default))
        assignments = []
        if draw.random() < 0.15:
            count, factor = draw.choice(((-1, -1), (-1, -1), (1, -1), (-1, 1)))
            assignments = [k19_create_topics.Assignment(partition_index=i, broker_ids=ids) for i, ids in draw.choice(ASSIGNMENTS)]
        configs = [k19_create_topics.Config(name=key, value=value) for key, value in draw.sample(CONFIGS, draw.choice((0, 0, 1, 2)))]
        return k19_create_topics.Topic(name=name, num_partitions=count, replication_factor=factor, assignments=assignments, configs=configs)

    def delete_topics(self) -> Operation:
        """Topics of our making; names and ids that are not there; the same twice."""
        draw = self.random
        version = draw.randint(1, 6)
        mine = sorted(name for name in self.data.partitions if name.startswith("made"))
        names = [
            draw.choice(mine) if mine and draw.random() < 0.7 else draw.choice((UNKNOWN, "..", "")) for _ in range(draw.choice((1, 2)))
        ]
        shapes = [draw.choice(("name", "id", "id", "both", "neither")) for _ in names]

        def make(side: int) -> k20_delete_topics.Request:
            if version < 6:
                return k20_delete_topics.Request(topic_names=names, timeout_ms=10_000)
            topics = [
                k20_delete_topics.Topic(
                    name=name if shape in {"name", "both"} else None,
                    topic_id=self.twins.topic_id(name, side) if shape in {"id", "both"} else NIL_UUID,
                )
                for name, shape in zip(names, shapes, strict=True)
            ]
            return k20_delete_topics.Request(topics=topics, timeout_ms=10_000)

        return Operation(k20_delete_topics, version, make, note=str(list(zip(names, shapes, strict=True))))

    def create_partitions(self) -> Operation:
        """Up to four of a topic of our making."""
        draw = self.random
        mine = sorted(name for name in self.data.partitions if name.startswith("made")) or [UNKNOWN]
        name = draw.choice((*mine, UNKNOWN)) if draw.random() < 0.2 else draw.choice(mine)
        current = self.data.partitions.get(name, 1)
        count = draw.choice((current + 1, current + 1, current, current - 1, 0, -1)) if current < 4 else current
        shapes: tuple[Any, ...] = (None, None, None, [[1]], [[2]], [[1], [1]], [[]], [[1, 1]])
        assigned = draw.choice(shapes)
        assignments = None if assigned is None else [k37_create_partitions.Assignment(broker_ids=ids) for ids in assigned]
        topic = k37_create_partitions.Topic(name=name, count=count, assignments=assignments)
        request = k37_create_partitions.Request(
            topics=[topic] * (2 if draw.random() < 0.03 else 1), timeout_ms=10_000, validate_only=draw.random() < 0.3
        )
        return Operation(k37_create_partitions, draw.randint(0, 3), lambda _: request, note=str(request))

    def incremental_alter_configs(self) -> Operation:
        """Set, delete, append, subtract."""
        draw = self.random
        configs = [
            k44_incremental_alter_configs.Config(name=key, value=value, config_operation=draw.choice((0, 0, 0, 1, 2, 3, 9)))
            for key, value in draw.sample(CONFIGS, draw.choice((1, 1, 2)))
        ]
        kind, name = self._resource()
        resource = k44_incremental_alter_configs.Resource(resource_type=kind, resource_name=name, configs=configs)
        request = k44_incremental_alter_configs.Request(resources=[resource], validate_only=draw.random() < 0.3)
        return Operation(k44_incremental_alter_configs, draw.randint(0, 1), lambda _: request, note=str(request))

    def alter_configs(self) -> Operation:
        """All overrides at once."""
        draw = self.random
        configs = [k33_alter_configs.Config(name=key, value=value) for key, value in draw.sample(CONFIGS, draw.choice((0, 1, 2)))]
        kind, name = self._resource()
        resource = k33_alter_configs.Resource(resource_type=kind, resource_name=name, configs=configs)
        request = k33_alter_configs.Request(resources=[resource], validate_only=draw.random() < 0.3)
        return Operation(k33_alter_configs, draw.randint(0, 2), lambda _: request, note=str(request))

    def _resource(self) -> tuple[int, str]:
        """A topic of our making: the others keep the configs that they are there for."""
        draw = self.random
        if draw.random() < 0.1:
            return draw.choice(((2, UNKNOWN), (2, ".."), (4, "7"), (4, "x"), (0, "x"), (99, "x")))
        return 2, draw.choice(sorted(name for name in self.data.partitions if name.startswith("made")) or [UNKNOWN])

    def describe_configs(self) -> Operation:
        """Of topics; of the broker only what both have in common."""
        draw = self.random
        version = draw.randint(1, 4)
        keys = draw.choice((None, [], ["retention.ms", "no.such.config"], ["cleanup.policy", "segment.bytes"]))
        kind, name = draw.choice(((2, self.name()), (2, self.name()), (2, self.name()), (4, "1"), (4, "9"), (4, "x"), (0, "x")))
        if kind == 4:
            keys = ["message.max.bytes", "log.retention.hours"]
        fields: dict[str, Any] = {"include_synonyms": draw.random() < 0.5} | ({"include_documentation": True} if version >= 3 else {})
        resource = k32_describe_configs.Resource(resource_type=kind, resource_name=name, configuration_keys=keys)
        request = k32_describe_configs.Request(resources=[resource], **fields)
        return Operation(k32_describe_configs, version, lambda _: request, note=str(request))

    def describe_topic_partitions(self) -> Operation:
        """With and without a cursor and a limit; never the empty name, over which Kafka trips: UNKNOWN_SERVER_ERROR for all."""
        draw = self.random
        topics = [k75_describe_topic_partitions.Topic(name=self.name() or UNKNOWN) for _ in range(draw.choice((0, 1, 2)))]
        cursor = None
        if draw.random() < 0.3:
            cursor = k75_describe_topic_partitions.Cursor(topic_name=self.name(), partition_index=draw.choice((0, 1, 2, 50, -1)))
        request = k75_describe_topic_partitions.Request(
            topics=topics, response_partition_limit=draw.choice((2000, 1, 3, 0, -1)), cursor=cursor
        )
        return Operation(k75_describe_topic_partitions, 0, lambda _: request, note=str(request))

    def describe_cluster(self) -> Operation:
        """One node, or, wrongly, controllers."""
        draw = self.random
        version = draw.randint(0, 2)
        fields: dict[str, Any] = {"include_cluster_authorized_operations": draw.random() < 0.5}
        if version >= 1:
            fields["endpoint_type"] = draw.choice((1, 1, 2, 3))
        return Operation(k60_describe_cluster, version, lambda _: k60_describe_cluster.Request(**fields), note=str(fields))

    def api_versions(self) -> Operation:
        """Only how a bad client name is answered: what is served differs."""
        draw = self.random
        version = draw.randint(3, 4)
        request = k18_api_versions.Request(client_software_name=draw.choice(("", "a b", "-a")), client_software_version="1")
        return Operation(k18_api_versions, version, lambda _: request, note=str(request))


def id_of(answer: Any, name: str) -> UUID | None:
    """A topic's id in a Metadata answer; None while it is not there."""
    for topic in answer.topics:
        if topic.name == name and topic.error_code == 0 and all(partition.leader_id >= 0 for partition in topic.partitions):
            found: UUID = topic.topic_id
            return found
    return None
