"""Requests with plausible values: each field drawn by its name, so that most requests are about things that exist."""

from __future__ import annotations

import time
from random import Random
from typing import Any
from uuid import UUID

from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression, compress
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.wire.schema import MISSING, NIL_UUID, Field, default_of, fields_of
from tests.fuzz.world import INSTANCES, Draw, World
from tests.golden.telemetry_scenes import payload
from tests.records.lies import LIES

PATTERNS = (
    "",
    ".*",
    "alpha|beta",
    "(a|b)*c",
    "a{1,50}",
    "[",
    "\\b?x",
    "(((){9}){9}){9}",
    "^(trans.*)-\\d$",
    "\\pL+",
    "(?i)ALPHA",
    "a{",
    "x*" * 30,
)
CONFIGS = (
    *(("retention.ms", value) for value in ("-1", "1000", "604800000", "x")),
    *(("cleanup.policy", value) for value in ("compact", "delete", "compact,delete", "")),
    *(("compression.type", value) for value in ("gzip", "zstd", "lz4", "snappy", "producer", "uncompressed")),
    *(("max.message.bytes", value) for value in ("1000000", "100", "-1", "2147483648")),
    *(("segment.bytes", value) for value in ("1048576", "14", "0")),
    *(("message.timestamp.type", value) for value in ("CreateTime", "LogAppendTime")),
    *(("consumer.session.timeout.ms", value) for value in ("45000", "0")),
    *(("share.auto.offset.reset", value) for value in ("earliest", "latest", "by_duration:PT1H", "by_duration:P")),
    *(("interval.ms", value) for value in ("1000", "0")),
    ("metrics", "org.apache.kafka."),
    ("match", "client_id=a.*"),
    ("match", "client_id=("),
    ("min.insync.replicas", "1"),
    ("no.such.config", "1"),
    ("log.retention.ms", "1000000"),
    ("segment.ms", "1000"),
)
ODD_NAMES = (
    "uniform",
    "range",
    "roundrobin",
    "",
    "alpha",
    "group.version",
    "transaction.version",
    "metadata.version",
    "share.version",
    "user",
)
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate", "x")
ENTITIES = ("user", "client-id", "ip", "group", "")
FEATURES = ("group.version", "transaction.version", "share.version", "streams.version", "metadata.version", "kraft.version", "x")
STATES = ("Stable", "Empty", "stable", "Dead", "Ongoing", "CompleteAbort", "Classic", "Consumer", "Share", "x", "")


def _one(*choices: Any) -> Draw:
    return lambda world, chance: chance.choice(choices)


def _learned(concept: str, *otherwise: Any) -> Draw:
    def draw(world: World, chance: Random) -> Any:
        return chance.choice(otherwise) if chance.random() < 0.25 else world.one_of(concept, chance, otherwise[0])

    return draw


def _epoch(world: World, chance: Random) -> int:
    return chance.choice((-1, 0, 0, 0, 1, 1, 2, 3)) if chance.random() < 0.7 else min(int(world.one_of("epoch", chance, 0)), 32767)


def _offset(world: World, chance: Random) -> int:
    near = int(world.one_of("offset", chance, 0))
    return chance.choice((0, 0, 1, 5, 100, -1, -2, near, near, max(near - 1, 0), near + 1))


def _records(world: World, chance: Random) -> bytes:
    """A batch: plain, compressed, idempotent, transactional, old, or one of the lies of tests/records."""
    now, draw = int(time.time() * 1000), chance.random()
    if draw < 0.15:
        return LIES[chance.choice(_LIES)].data(now)
    few = [
        Record(
            0,
            now - chance.randrange(1000),
            chance.choice((None, b"", b"k%d" % chance.randrange(5))),
            chance.randbytes(chance.randrange(40)),
        )
        for _ in range(chance.choice((1, 1, 2, 5, 30)))
    ]
    if draw < 0.25:
        return bytes(build_message_set(few, chance.randrange(2)))
    if draw < 0.6:
        return bytes(build_batch(few, compression=chance.choice(tuple(Compression))))
    producer_id = world.one_of("producer_id", chance, 0)
    return bytes(
        build_batch(
            few,
            compression=chance.choice(tuple(Compression)) if chance.random() < 0.3 else Compression.NONE,
            producer_id=producer_id,
            producer_epoch=max(0, _epoch(world, chance)),
            base_sequence=chance.choice((0, 0, 0, 1, 5, 2**31 - 1)),
            is_transactional=chance.random() < 0.5,
        )
    )


_LIES = sorted(LIES)
_PARTITION = _one(0, 0, 0, 1, 1, 2, 7, -1)
_WAIT = _one(0, 0, 0, 1, 20)
_TOPIC: Draw = lambda world, chance: world.topic(chance)  # noqa: E731  a table of draws
_GROUP: Draw = lambda world, chance: world.group(chance)  # noqa: E731
_ID: Draw = lambda world, chance: world.transactional_id(chance)  # noqa: E731
_TOPIC_ID: Draw = lambda world, chance: world.topic_id(chance)  # noqa: E731
_NODE = _one(0, 0, 1, 1, 2, -1)


def _metrics(world: World, chance: Random) -> bytes:
    """An OpenTelemetry message, whole or damaged; compressed in half of all cases, often by another codec than the request names."""
    message = bytearray(payload(chance.choice((0, 1, 3, 50))))
    if message and chance.random() < 0.3:
        message[chance.randrange(len(message))] = chance.randrange(256)
    return compress(chance.choice((Compression.NONE, *Compression)), message)


def _member(world: World, chance: Random) -> str:
    return "" if chance.random() < 0.3 else str(world.one_of("member_id", chance, "member"))


def _resource(world: World, chance: Random) -> str:
    return chance.choice((world.topic(chance), world.topic(chance), world.group(chance), "1", "0", "", "metrics-1"))


#: How to draw a field, by its name; what is not here is drawn by its kind.
DRAWS: dict[str, Draw] = {
    "records": _records,
    "topic": _TOPIC,
    "topic_name": _TOPIC,
    "topic_names": _TOPIC,
    "subscribed_topic_names": _TOPIC,
    "source_topics": _TOPIC,
    "repartition_sink_topics": _TOPIC,
    "topic_id": _TOPIC_ID,
    "group_id": _GROUP,
    "group_ids": _GROUP,
    "groups_names": _GROUP,
    "groups": _GROUP,
    "transactional_id": _ID,
    "transactional_ids": _ID,
    "v3_and_below_transactional_id": _ID,
    "coordinator_keys": lambda world, chance: chance.choice(
        (world.group(chance), world.transactional_id(chance), "g:AAAAAAAAAAAAAAAAAAAAAA:0")
    ),
    "key": lambda world, chance: chance.choice((world.group(chance), world.transactional_id(chance), *QUOTAS)),
    "member_id": _member,
    "leader": _member,
    "group_instance_id": _one(None, None, *INSTANCES),
    "instance_id": _one(None, None, *INSTANCES),
    "producer_id": _learned("producer_id", 0, -1),
    "v3_and_below_producer_id": _learned("producer_id", 0, -1),
    "producer_id_filters": _learned("producer_id", 0, -1),
    "producer_epoch": _epoch,
    "v3_and_below_producer_epoch": _epoch,
    "generation_id": _epoch,
    "generation_id_or_member_epoch": _epoch,
    "member_epoch": _epoch,
    "share_session_epoch": _epoch,
    "session_epoch": _epoch,
    "state_epoch": _epoch,
    "coordinator_epoch": _epoch,
    "session_id": _learned("session_id", 0, 1),
    "current_leader_epoch": _learned("leader_epoch", -1, 0),
    "leader_epoch": _learned("leader_epoch", -1, 0),
    "last_fetched_epoch": _one(-1, -1, 0, 1),
    "committed_leader_epoch": _one(-1, 0),
    "index": _PARTITION,
    "partition": _PARTITION,
    "partition_index": _PARTITION,
    "partition_indexes": _PARTITION,
    "partitions": _PARTITION,
    "fetch_offset": _offset,
    "offset": _offset,
    "first_offset": _offset,
    "last_offset": _offset,
    "start_offset": _offset,
    "committed_offset": _offset,
    "high_watermark": _offset,
    "log_start_offset": _one(-1, 0),
    "timestamp": _one(-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
    "acks": _one(-1, 1, 1, 0, 2),
    "max_wait_ms": _WAIT,
    "timeout_ms": _WAIT,
    "min_bytes": _one(0, 1, 1, 1000),
    "max_bytes": _one(2**31 - 1, 1000, 0, 1_000_000),
    "partition_max_bytes": _one(1000, 1_000_000, 0),
    "max_num_offsets": _one(1, 0, 5),
    "session_timeout_ms": _one(10, 500, 1000, 3000),
    "rebalance_timeout_ms": _one(10, 300, 1000, -1),
    "transaction_timeout_ms": _one(1000, 5000, 0),
    "replica_id": _one(-1, -1, -1, -2, 1),
    "isolation_level": _one(0, 1),
    "replicas": _NODE,
    "broker_ids": _NODE,
    "num_partitions": _one(1, 1, 2, 3, -1, 0),
    "replication_factor": _one(1, 1, -1, 2, 0),
    "count": _one(2, 3, 4, 1, 0, -1),
    "resource_type": _one(2, 2, 2, 4, 8, 16, 32, 0),
    "resource_types": _one(2, 4, 8, 16, 32),
    "resource_name": _resource,
    "config_operation": _one(0, 0, 1, 2, 3),
    "configuration_keys": lambda world, chance: chance.choice(CONFIGS)[0],
    "key_type": _one(0, 0, 1, 2),
    "election_type": _one(0, 1),
    "endpoint_type": _one(1, 2),
    "match_type": _one(0, 1, 2),
    "mechanism": _one(1, 2, 0),
    "entity_type": _one(*ENTITIES),
    "entity_name": _one(None, "ANONYMOUS", "a", "127.0.0.1", ""),
    "feature": _one(*FEATURES),
    "max_version_level": _one(0, 1, 2, 3),
    "upgrade_type": _one(1, 2, 3),
    "protocol_type": _one("consumer", "consumer", "connect", ""),
    "protocol_name": _one(None, "range", "x"),
    "states_filter": _one(*STATES),
    "state_filters": _one(*STATES),
    "types_filter": _one(*STATES),
    "subscribed_topic_regex": _one(*PATTERNS),
    "transactional_id_pattern": _one(*PATTERNS),
    "source_topic_regex": _one(*PATTERNS),
    "server_assignor": _one(None, "uniform", "range", "x"),
    "acknowledge_types": _one(1, 1, 2, 3, 4, 0, 5),
    "delivery_state": _one(0, 2, 4, 1, -1),
    "retention_time_ms": _one(-1, 1000),
    "max_records": _one(500, 1, 10),
    "batch_size": _one(500, 1, 10),
    "response_partition_limit": _one(2000, 1, 0),
    "subtopology_id": _one("0", "1"),
    "process_id": _one("p1", "p2"),
    "endpoint_information_epoch": _one(0, 1, -1),
    "epoch": _epoch,
    "iterations": _one(4096, 4096, 0),
    "salt": _one(b"salt", b""),
    "salted_password": _one(b"p" * 32, b"p" * 64, b""),
    "duration_filter": _one(-1, 0, 1000),
    "enable_2pc": _one(False),
    "client_software_name": _one("fuzz", "", "!"),
    "assignment": _one(b"", b"\0\1\0\0\0\1\0\5alpha\0\0\0\1\0\0\0\0\xff\xff\xff\xff"),
    "metadata": _one(b"", b"\0\1\0\0\0\1\0\5alpha\xff\xff\xff\xff\0\0\0\0"),
    "path": _learned("log_dir", "/nowhere", ""),
    "value": _one(1e7, 1e9),
    "client_instance_id": _learned("client_instance_id", NIL_UUID, UUID(int=1), UUID(int=2)),
    "subscription_id": _learned("subscription_id", 0),
    "terminating": _one(False, False, False, True),
    "compression_type": _one(0, 0, 0, 1, 2, 3, 4, -1),
    "metrics": _metrics,
}
#: `name` is the name of many things: what it is, by the path of structs above it or by the API.
NAMES: dict[int, Draw] = {
    11: _one("range", "roundrobin", "x"),
    33: lambda world, chance: chance.choice(CONFIGS)[0],
    44: lambda world, chance: chance.choice(CONFIGS)[0],
    50: _one("alice", "bob"),
    51: _one("alice", "bob", ""),
    88: lambda world, chance: chance.choice((world.topic(chance), "retention.ms", "internal-changelog")),
}
NUMBERS = {"int8": (0, 1, -1), "int16": (0, 1, -1), "int32": (0, 1, 2, -1), "int64": (0, 1, -1), "uint16": (0, 9092), "float64": (1e7,)}


def request_of(struct_type: type[Any], api_key: int, version: int, world: World, chance: Random, **given: Any) -> Any:
    """A request with plausible values; `given` fixes fields at its top."""
    return _Drawing(api_key, version, world, chance).struct(struct_type, given)


class _Drawing:
    def __init__(self, api_key: int, version: int, world: World, chance: Random) -> None:
        self._api_key = api_key
        self._version = version
        self._world = world
        self._chance = chance

    def struct(self, struct_type: type[Any], given: dict[str, Any]) -> Any:
        return struct_type(**{each.name: given[each.name] if each.name in given else self._field(each) for each in fields_of(struct_type)})

    def _field(self, field: Field) -> Any:
        chance = self._chance
        if not field.in_version(self._version) or (field.tag is not None and chance.random() < 0.8):
            return default_of(field) if field.default is not MISSING else None
        if field.null_in(self._version) and chance.random() < 0.15:
            return None
        if field.is_array:
            return [self._element(field) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
        found = self._element(field)
        return "" if found is None and field.kind == "string" and not field.null_in(self._version) else found

    def _element(self, field: Field) -> Any:
        if field.struct is not None:
            return self._struct_element(field)
        draw = NAMES.get(self._api_key, _TOPIC) if field.name == "name" else DRAWS.get(field.name)
        if field.kind in ("int8", "int16", "int32", "int64", "uint16") and field.name in ("source_topics", "source_topic_regex"):
            return 0
        if draw is not None and not (field.name in {"value", "mechanism"} and field.kind == "string"):
            return draw(self._world, self._chance)
        if field.kind in NUMBERS:
            return self._chance.choice(NUMBERS[field.kind])
        if field.kind == "bool":
            return self._chance.random() < 0.5
        if field.kind == "uuid":
            return NIL_UUID
        return self._chance.choice(ODD_NAMES) if field.kind == "string" else b"x"

    def _struct_element(self, field: Field) -> Any:
        """A config gets a name and a value that belong together."""
        struct_type: Any = field.struct
        if field.name in ("configs", "topic_configs"):
            name, value = self._chance.choice(CONFIGS)
            first, *_ = fields_of(struct_type)
            return self.struct(struct_type, {first.name: name, "value": value})
        return self.struct(struct_type, {})
