"""All topic configs of Apache Kafka 4.3.1 (TopicConfig, LogConfig): type, default, valid values, and synonyms.

The value of a topic config is its override, else the broker property with the same meaning (its synonym), else the default.
Different from Kafka, segment.bytes may be as small as 14 (Kafka: 1 MiB), because tests of retention and of data loss need many small
segments.
"""

from __future__ import annotations

from minibroker.config.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Property,
    Row,
    at_least,
    between,
    gzip_level,
    one_of,
    throttled_replicas,
)

COMPRESSION_TYPES = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
SEGMENT_BYTES = "segment.bytes"
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"  #: overrides segment.bytes
SEGMENT_BYTES_MIN = 14  # the limit of Kafka 3; 4.x requires 1 MiB
HOUR_MS = 3_600_000
MINUTE_MS = 60_000

_LEADER_THROTTLE = "leader.replication.throttled.replicas"
_FOLLOWER_THROTTLE = "follower.replication.throttled.replicas"
_NO_REMOTE = "Tiered storage is not part of minibroker."
_NO_FOLLOWERS = "Accepted for Kafka's tools; there are no followers to throttle."

_ROWS: tuple[Row, ...] = (
    (
        "cleanup.policy",
        LIST,
        "delete",
        one_of("compact", "delete"),
        "What happens to old segments: delete them after retention, compact them to the last value per key, or both. Empty: keep all.",
    ),
    ("compression.gzip.level", INT, "-1", gzip_level, "Level when compression.type is gzip; -1 is the library's default."),
    ("compression.lz4.level", INT, "9", between(1, 17), "Level when compression.type is lz4."),
    (
        "compression.type",
        STRING,
        "producer",
        COMPRESSION_TYPES,
        "Codec of the batches on disk. `producer` keeps what the producer chose; any other recompresses on the way in.",
    ),
    ("compression.zstd.level", INT, "3", between(-131072, 22), "Level when compression.type is zstd."),
    ("delete.retention.ms", LONG, "86400000", at_least(0), "How long a tombstone stays readable after its first compaction."),
    ("file.delete.delay.ms", LONG, "60000", at_least(0), "How long a deleted file stays, renamed, before it is removed."),
    (
        "flush.messages",
        LONG,
        "9223372036854775807",
        at_least(1),
        "Records after which the log is fsynced before they are acknowledged; 1 survives power loss.",
    ),
    ("flush.ms", LONG, "9223372036854775807", at_least(0), "Longest time that a record waits for an fsync."),
    (_FOLLOWER_THROTTLE, LIST, "", throttled_replicas(_FOLLOWER_THROTTLE), _NO_FOLLOWERS),
    ("index.interval.bytes", INT, "4096", at_least(0), "Bytes of log between two entries of the offset index."),
    (_LEADER_THROTTLE, LIST, "", throttled_replicas(_LEADER_THROTTLE), _NO_FOLLOWERS),
    ("local.retention.bytes", LONG, "-2", at_least(-2), _NO_REMOTE),
    ("local.retention.ms", LONG, "-2", at_least(-2), _NO_REMOTE),
    ("max.compaction.lag.ms", LONG, "9223372036854775807", at_least(1), "Longest time that a record may stay uncompacted."),
    ("max.message.bytes", INT, "1048588", at_least(0), "Largest record batch, as it arrives compressed, with its header."),
    (
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        at_least(0),
        "How far a CreateTime timestamp may lie in the future before the batch is rejected.",
    ),
    (
        "message.timestamp.before.max.ms",
        LONG,
        "9223372036854775807",
        at_least(0),
        "How far a CreateTime timestamp may lie in the past before the batch is rejected.",
    ),
    (
        "message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whether records keep the producer's time or get the broker's.",
    ),
    ("min.cleanable.dirty.ratio", DOUBLE, "0.5", between(0, 1), "Share of uncompacted bytes from which a log is compacted."),
    ("min.compaction.lag.ms", LONG, "0", at_least(0), "Shortest time that a record stays uncompacted."),
    ("min.insync.replicas", INT, "1", at_least(1), "Replicas that must be in sync for acks=all."),
    ("preallocate", BOOLEAN, "false", None, "Whether a new segment allocates its full size on disk."),
    ("remote.log.copy.disable", BOOLEAN, "false", None, _NO_REMOTE),
    ("remote.log.delete.on.disable", BOOLEAN, "false", None, _NO_REMOTE),
    ("remote.storage.enable", BOOLEAN, "false", None, _NO_REMOTE),
    ("retention.bytes", LONG, "-1", None, "Bytes that a partition keeps; older segments are deleted. Negative: no limit."),
    ("retention.ms", LONG, "604800000", at_least(-1), "Age, by record timestamp, from which a segment is deleted. -1: never."),
    ("segment.bytes", INT, "1073741824", at_least(SEGMENT_BYTES_MIN), "Size at which a new segment starts."),
    ("segment.index.bytes", INT, "10485760", at_least(4), "Size of an offset index at which a new segment starts."),
    ("segment.jitter.ms", LONG, "0", at_least(0), "Random time taken off segment.ms, so that segments do not all roll at the same time."),
    ("segment.ms", LONG, "604800000", at_least(1), "Age at which a new segment starts even if the old one is not full."),
    ("unclean.leader.election.enable", BOOLEAN, "false", None, "Whether a replica that is not in sync may lead."),
)

TOPIC_PROPERTIES: dict[str, Property] = {row[0]: Property(row, is_dynamic=True) for row in _ROWS}

#: Apache Kafka accepts these, reports them if they are set, and does not document them: its tests use them for small segments
INTERNAL_TOPIC_PROPERTIES: dict[str, Property] = {
    INTERNAL_SEGMENT_BYTES: Property(
        (INTERNAL_SEGMENT_BYTES, INT, None, None, "Size at which a new segment starts, regardless of segment.bytes. For tests only."),
        is_dynamic=True,
    )
}


_STRATEGY_PACKAGE = "io.confluent.kafka.serializers.subject."
SUBJECT_STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_STRATEGIES = one_of(*(f"{package}{name}" for package in (_STRATEGY_PACKAGE, "") for name in SUBJECT_STRATEGIES))

#: Confluent Server has these. A broker accepts them if it has a schema registry, and reports them if they are set.
SCHEMA_PROPERTIES: dict[str, Property] = {
    row[0]: Property(row, is_dynamic=True)
    for part in ("key", "value")
    for row in (
        (f"confluent.{part}.schema.validation", BOOLEAN, "false", None, f"Refuse records whose {part} names no schema of its subject."),
        (
            f"confluent.{part}.subject.name.strategy",
            STRING,
            f"{_STRATEGY_PACKAGE}TopicNameStrategy",
            _STRATEGIES,
            f"Which subject the schema of a {part} belongs to.",
        ),
    )
}
INTERNAL_TOPIC_PROPERTIES |= SCHEMA_PROPERTIES


def topic_property(name: str) -> Property | None:
    """Return the topic config of this name, also an undocumented one."""
    return TOPIC_PROPERTIES.get(name) or INTERNAL_TOPIC_PROPERTIES.get(name)


# Synonyms: broker properties with the meaning of a topic config, strongest first, with the factor from their unit to the topic's
# (ServerTopicConfigSynonyms). A topic config that is missing here has no broker-wide default.
SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
}
