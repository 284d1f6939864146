"""All broker properties that have an effect in minibroker, under Kafka's names.

Defaults are Kafka's where a single node allows it. `differences.py` lists the other ones (KAFKA_DEFAULTS), for example node.id=1,
log.dir=data, group.initial.rebalance.delay.ms=0, and replication factor 1 of internal topics. Limits that users may change are here;
fixed limits of requests are in `request_limits.py`.
"""

from __future__ import annotations

from minibroker.config.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Check,
    Property,
    Row,
    Value,
    at_least,
    between,
    gzip_level,
    one_of,
)
from minibroker.config.group_properties import DYNAMIC_ROWS as _GROUPS_DYNAMIC
from minibroker.config.group_properties import STATIC_ROWS as _GROUPS
from minibroker.config.listeners import DEFAULT_LISTENERS, DEFAULT_PROTOCOL_MAP
from minibroker.config.topic_properties import COMPRESSION_TYPES, SEGMENT_BYTES_MIN

_INT_MAX = "2147483647"
_LONG_MAX = "9223372036854775807"
_RETENTION = "Age from which a segment is deleted, if {} is not set. -1: never."

LIKE_KAFKA = "minibroker.like.kafka"
TELEMETRY = "minibroker.telemetry"

#: limits that a listener may have of its own: `listener.name.internal.max.connections`
LIMITS_OF_LISTENERS = ("max.connections", "max.connection.creation.rate")

_IDENTITY: tuple[Row, ...] = (
    (
        LIKE_KAFKA,
        BOOLEAN,
        "false",
        None,
        "Whether the broker behaves as Apache Kafka does where minibroker deliberately differs (differences.md). Not one of Kafka's.",
    ),
    ("broker.id", INT, "1", at_least(-1), "The older name of node.id."),
    ("node.id", INT, "1", at_least(0), "Id of this node; written to meta.properties and checked there at each start."),
    ("cluster.id", STRING, None, None, "Cluster id of a new data directory; a random one if it is not set. Not one of Kafka's properties."),
    ("broker.rack", STRING, None, None, "Rack that Metadata and DescribeCluster report."),
    ("log.dir", LIST, "data", None, "Data directory, if log.dirs is not set."),
    (
        "log.dirs",
        LIST,
        None,
        None,
        "Data directories, separated by commas; log.dir if it is not set. New partitions go to the one with the fewest.",
    ),
    ("metadata.log.dir", STRING, None, None, "Directory of __cluster_metadata-0; the first of log.dirs if it is not set."),
)

_NETWORK: tuple[Row, ...] = (
    (
        "listeners",
        LIST,
        DEFAULT_LISTENERS,
        None,
        "Addresses to listen on, NAME://HOST:PORT; an empty host is every interface, port 0 any free port.",
    ),
    (
        "advertised.listeners",
        LIST,
        None,
        None,
        "Addresses that the broker gives to clients, NAME://HOST:PORT. If it is not set: those of listeners.",
    ),
    (
        "listener.security.protocol.map",
        STRING,
        DEFAULT_PROTOCOL_MAP,
        None,
        "Security protocol of each listener name, NAME:PROTOCOL.",
    ),
    ("controller.listener.names", LIST, None, None, "Listener names that belong to Kafka's controller: accepted and not opened."),
    ("connections.max.idle.ms", LONG, "600000", None, "Idle time after which a connection is closed; a negative value keeps it open."),
    ("queued.max.requests", INT, "500", at_least(1), "Requests of one connection that may wait for their answer before reading pauses."),
    (
        "minibroker.request.memory.bytes",
        INT,
        "100663296",
        at_least(1048576),
        "Maximum memory of the values of one request and of the answers to its parts. A request above it closes its connection.",
    ),
    (
        "minibroker.sender.threads",
        INT,
        "-1",
        between(-1, 64),
        "Threads that send large responses while several clients read. -1: one for each processor but one, at most 3; 0: none.",
    ),
    (
        "minibroker.metrics.port",
        INT,
        "-1",
        between(-1, 65535),
        "Port of /metrics over HTTP, 0 for a free one; -1: none.",
    ),
    ("minibroker.metrics.host", STRING, "127.0.0.1", None, "Address of /metrics."),
    (
        "minibroker.metrics.names",
        LIST,
        "kafka_exporter,jmx,minibroker",
        None,
        "Names that /metrics serves: kafka_exporter, jmx, minibroker, reporter, kminion, lag, burrow, redpanda, otel (metrics.md).",
    ),
    (
        "queued.max.request.bytes",
        LONG,
        "268435456",
        None,
        "Memory of all requests that have not arrived completely; above it large ones arrive one after the other. -1: no limit.",
    ),
    ("socket.listen.backlog.size", INT, "50", at_least(1), "Connections that the kernel holds until they are accepted."),
    ("socket.receive.buffer.bytes", INT, "102400", at_least(-1), "SO_RCVBUF of a connection; -1 leaves it to the system."),
    (
        "socket.request.max.bytes",
        INT,
        "104857600",
        at_least(1),
        "Largest request; a larger size closes the connection before any allocation.",
    ),
    ("socket.send.buffer.bytes", INT, "102400", at_least(-1), "SO_SNDBUF of a connection; -1 leaves it to the system."),
    ("fetch.max.bytes", INT, "57671680", at_least(1024), "Largest Fetch response, even if the client accepts more."),
    ("max.incremental.fetch.session.cache.slots", INT, "1000", at_least(0), "Maximum number of fetch sessions (KIP-227)."),
    (
        "max.request.partition.size.limit",
        INT,
        "2000",
        at_least(1),
        "Maximum number of partitions in one response to DescribeTopicPartitions.",
    ),
    ("request.timeout.ms", INT, "30000", at_least(0), "Longest wait of WriteTxnMarkers for the high watermark."),
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _authorizer_problem(value: Value) -> str | None:
    return None if value in {"", STANDARD_AUTHORIZER} else f"the only authorizer is {STANDARD_AUTHORIZER}"


_AUTHORIZER: tuple[Row, ...] = (
    (
        "authorizer.class.name",
        STRING,
        "",
        Check("non-null string", _authorizer_problem),
        f"Class that decides what clients may do: {STANDARD_AUTHORIZER}. If it is not set, every client may do everything.",
    ),
    (
        "super.users",
        PASSWORD,
        None,
        None,
        "Principals that may do everything, separated by semicolons: User:admin;User:ops.",
    ),
    (
        "allow.everyone.if.no.acl.found",
        PASSWORD,
        None,
        None,
        "Whether clients may use resources for which there is no access control entry, true or false; false if it is not set.",
    ),
)

_QUOTAS: tuple[Row, ...] = (
    ("controller.quota.window.num", INT, "11", at_least(1), "Number of samples for the rate of a client's changes."),
    ("controller.quota.window.size.seconds", INT, "1", at_least(1), "Length of each sample."),
    ("quota.window.num", INT, "11", at_least(1), "Number of samples for a client's rate of bytes and share of time."),
    ("quota.window.size.seconds", INT, "1", at_least(1), "Length of each sample."),
)

_NETWORK_DYNAMIC: tuple[Row, ...] = (
    (
        "max.connection.creation.rate",
        INT,
        _INT_MAX,
        at_least(0),
        "Maximum number of new connections a second. Those of ten seconds may arrive at once. Further ones wait, up to 10 s.",
    ),
    ("max.connections", INT, _INT_MAX, at_least(0), "Maximum number of connections at the same time. The broker closes further ones."),
    ("max.connections.per.ip", INT, _INT_MAX, at_least(0), "Maximum number of connections at the same time from one address."),
    ("max.connections.per.ip.overrides", STRING, "", None, "max.connections.per.ip of single addresses, ADDRESS:COUNT,..."),
)

_TOPICS: tuple[Row, ...] = (
    ("auto.create.topics.enable", BOOLEAN, "true", None, "Whether a topic is created when a client first uses it."),
    ("default.replication.factor", INT, "1", at_least(1), "Replication factor of topics created on first use."),
    ("delete.topic.enable", BOOLEAN, "true", None, "Whether topics can be deleted."),
    ("num.partitions", INT, "1", at_least(1), "Number of partitions of a topic that is created without one."),
    (
        "topic.partition.count.map",
        LIST,
        "",
        None,
        "Partitions of topics created on first use, topic:count,topic:count; num.partitions for others. Not one of Kafka's properties.",
    ),
)

_LOG_STATIC: tuple[Row, ...] = (
    ("log.cleaner.enable", BOOLEAN, "true", None, "Whether compacted topics are compacted."),
    ("log.flush.offset.checkpoint.interval.ms", INT, "60000", at_least(0), "How often recovery points are written."),
    ("log.flush.scheduler.interval.ms", LONG, _LONG_MAX, None, "How often logs are checked for flush.ms."),
    ("log.flush.start.offset.checkpoint.interval.ms", INT, "60000", at_least(0), "How often log start offsets are written."),
    ("log.initial.task.delay.ms", LONG, "30000", at_least(0), "Delay of the first check of retention, unless its interval is shorter."),
    ("log.retention.check.interval.ms", LONG, "300000", at_least(1), "How often retention is checked."),
    ("log.retention.hours", INT, "168", None, _RETENTION.format("log.retention.ms or log.retention.minutes")),
    ("log.retention.minutes", INT, None, None, _RETENTION.format("log.retention.ms")),
    ("log.roll.hours", INT, "168", at_least(1), "Age at which a new segment starts, if log.roll.ms is not set."),
    ("log.roll.jitter.hours", INT, "0", at_least(0), "Random time taken off log.roll.hours, if log.roll.jitter.ms is not set."),
    (
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        "20971520",
        at_least(1),
        "Bytes of __cluster_metadata-0 after the newest snapshot at which the next one is written.",
    ),
    (
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        "3600000",
        at_least(0),
        "Age of the newest snapshot from which the next change of metadata first writes a new one; 0: never.",
    ),
    ("metadata.log.segment.bytes", INT, "1073741824", at_least(8_388_608), "Segment size of __cluster_metadata-0."),
    ("metadata.max.retention.bytes", LONG, "104857600", None, "Size of __cluster_metadata-0 above which its oldest snapshots are removed."),
    (
        "metadata.max.retention.ms",
        LONG,
        "604800000",
        None,
        "Age at which snapshots of __cluster_metadata-0 are removed, except the newest.",
    ),
    ("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", None, "How often high watermarks are written."),
)

_LOG_DYNAMIC: tuple[Row, ...] = (
    ("compression.gzip.level", INT, "-1", gzip_level, "Level when compression.type is gzip; -1 is the library's default."),
    ("compression.lz4.level", INT, "9", between(1, 17), "Level when compression.type is lz4."),
    ("compression.type", STRING, "producer", COMPRESSION_TYPES, "Codec of the batches on disk; `producer` keeps what the producer chose."),
    ("compression.zstd.level", INT, "3", between(-131072, 22), "Level when compression.type is zstd."),
    ("log.cleaner.backoff.ms", LONG, "15000", at_least(0), "How long the cleaner sleeps if there is nothing to clean."),
    ("log.cleaner.dedupe.buffer.size", LONG, "134217728", None, "Memory of the cleaner's offset map."),
    ("log.cleaner.delete.retention.ms", LONG, "86400000", at_least(0), "How long a tombstone stays readable after compaction."),
    ("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", None, "How full the cleaner's offset map may get."),
    ("log.cleaner.io.buffer.size", INT, "524288", at_least(0), "Memory of the cleaner's read and write buffers."),
    ("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", None, "Bytes that the cleaner reads and writes per second."),
    ("log.cleaner.max.compaction.lag.ms", LONG, _LONG_MAX, at_least(1), "Longest time that a record may stay uncompacted."),
    ("log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", between(0, 1), "Share of uncompacted bytes from which a log is compacted."),
    ("log.cleaner.min.compaction.lag.ms", LONG, "0", at_least(0), "Shortest time that a record stays uncompacted."),
    ("log.cleaner.threads", INT, "1", at_least(0), "Logs that are compacted at the same time."),
    ("log.cleanup.policy", LIST, "delete", one_of("compact", "delete"), "What happens to old segments: delete, compact or both."),
    (
        "log.flush.interval.messages",
        LONG,
        _LONG_MAX,
        at_least(1),
        "Records after which a log is fsynced before they are acknowledged; 1 survives power loss.",
    ),
    ("log.flush.interval.ms", LONG, None, None, "Longest time that a record waits for an fsync."),
    ("log.index.interval.bytes", INT, "4096", at_least(0), "Bytes of log between two entries of the offset index."),
    ("log.index.size.max.bytes", INT, "10485760", at_least(4), "Size of an offset index at which a new segment starts."),
    ("log.local.retention.bytes", LONG, "-2", at_least(-2), "Accepted; tiered storage is not part of minibroker."),
    ("log.local.retention.ms", LONG, "-2", at_least(-2), "Accepted; tiered storage is not part of minibroker."),
    ("log.message.timestamp.after.max.ms", LONG, "3600000", at_least(0), "How far a CreateTime timestamp may lie in the future."),
    ("log.message.timestamp.before.max.ms", LONG, _LONG_MAX, at_least(0), "How far a CreateTime timestamp may lie in the past."),
    (
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whether records keep the producer's time or get the broker's.",
    ),
    ("log.preallocate", BOOLEAN, "false", None, "Whether a new segment allocates its full size on disk."),
    ("log.retention.bytes", LONG, "-1", None, "Bytes that a partition keeps; older segments are deleted. Negative: no limit."),
    ("log.retention.ms", LONG, None, None, "Age, by record timestamp, from which a segment is deleted. -1: never."),
    ("log.roll.jitter.ms", LONG, None, None, "Random time taken off log.roll.ms."),
    ("log.roll.ms", LONG, None, None, "Age at which a new segment starts even if the old one is not full."),
    ("log.segment.bytes", INT, "1073741824", at_least(SEGMENT_BYTES_MIN), "Size at which a new segment starts."),
    ("log.segment.delete.delay.ms", LONG, "60000", at_least(0), "How long a deleted file stays, renamed, before it is removed."),
    ("message.max.bytes", INT, "1048588", at_least(0), "Largest record batch, as it arrives compressed, with its header."),
    ("min.insync.replicas", INT, "1", at_least(1), "Replicas that must be in sync for acks=all."),
    (
        "num.recovery.threads.per.data.dir",
        INT,
        "2",
        at_least(1),
        "Logs of a directory that are recovered at the same time after an unclean stop.",
    ),
    ("unclean.leader.election.enable", BOOLEAN, "false", None, "Whether a replica that is not in sync may lead."),
)

#: altered by Kafka's users and tools on any broker, though minibroker has neither these threads nor followers
_ACCEPTED_DYNAMIC: tuple[Row, ...] = (
    ("background.threads", INT, "10", at_least(1), "Accepted; one thread serves everything."),
    ("num.io.threads", INT, "8", at_least(1), "Accepted; one thread serves everything."),
    ("num.network.threads", INT, "3", at_least(1), "Accepted; one thread serves everything."),
    ("num.replica.fetchers", INT, "1", at_least(1), "Accepted; there are no followers."),
    (
        "follower.replication.throttled.rate",
        LONG,
        _LONG_MAX,
        at_least(0),
        "Accepted for Kafka's tools; there are no followers to throttle.",
    ),
    ("leader.replication.throttled.rate", LONG, _LONG_MAX, at_least(0), "Accepted for Kafka's tools; there are no followers to throttle."),
    (
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        _LONG_MAX,
        at_least(0),
        "Bytes per second that are copied when partitions move between log directories (AlterReplicaLogDirs).",
    ),
)

#: described only if they were altered (QuotaConfig.BROKER_QUOTA_CONFIGS)
DYNAMIC_ONLY = frozenset(row[0] for row in _ACCEPTED_DYNAMIC[-3:])

#: described only if they are set; Kafka's table does not have those of the authorizer
DESCRIBED_IF_SET = DYNAMIC_ONLY | {row[0] for row in _AUTHORIZER[1:]}

_COORDINATORS: tuple[Row, ...] = (
    ("group.initial.rebalance.delay.ms", INT, "0", at_least(0), "How long a new group waits for more members."),
    ("group.max.session.timeout.ms", INT, "1800000", None, "Longest session timeout that a member may request."),
    (
        "group.max.size",
        INT,
        "5000",
        at_least(1),
        "Maximum number of members of a classic group, and of ids of members that have not joined yet.",
    ),
    ("group.min.session.timeout.ms", INT, "6000", None, "Shortest session timeout that a member may request."),
    ("offset.metadata.max.bytes", INT, "4096", None, "Longest metadata of a committed offset."),
    ("offsets.retention.check.interval.ms", LONG, "600000", at_least(1), "How often expired offsets are removed."),
    ("offsets.retention.minutes", INT, "10080", at_least(1), "How long the offsets of an empty group are kept."),
    ("offsets.topic.num.partitions", INT, "50", at_least(1), "Partitions of __consumer_offsets."),
    ("offsets.topic.replication.factor", SHORT, "1", at_least(1), "Replication factor of __consumer_offsets."),
    ("offsets.topic.segment.bytes", INT, "104857600", at_least(1), "Segment size of __consumer_offsets."),
    ("producer.id.expiration.check.interval.ms", INT, "600000", at_least(1), "How often expired producer ids are removed."),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        "10000",
        at_least(1),
        "How often timed-out transactions are aborted.",
    ),
    ("transaction.max.timeout.ms", INT, "900000", at_least(1), "Longest transaction timeout that a producer may request."),
    (
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        "3600000",
        at_least(1),
        "How often expired transactional ids are removed.",
    ),
    ("transaction.state.log.min.isr", INT, "1", at_least(1), "min.insync.replicas of __transaction_state."),
    ("transaction.state.log.num.partitions", INT, "50", at_least(1), "Partitions of __transaction_state."),
    (
        "transaction.state.log.replication.factor",
        SHORT,
        "1",
        at_least(1),
        "Replication factor of __transaction_state.",
    ),
    ("transaction.state.log.segment.bytes", INT, "104857600", at_least(1), "Segment size of __transaction_state."),
    ("transactional.id.expiration.ms", INT, "604800000", at_least(1), "How long an unused transactional id is kept."),
)

_SHARE_COORDINATOR: tuple[Row, ...] = (
    (
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        "300000",
        at_least(1),
        "Age from which the state of a share partition is rewritten, so that older records of other partitions can be deleted.",
    ),
    (
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        "500",
        between(0, 500),
        "Changes of a share partition's state between two records of the whole state.",
    ),
    ("share.coordinator.state.topic.min.isr", SHORT, "1", at_least(1), "min.insync.replicas of __share_group_state."),
    ("share.coordinator.state.topic.num.partitions", INT, "50", at_least(1), "Partitions of __share_group_state."),
    (
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        "300000",
        at_least(1),
        "How often obsolete records of __share_group_state are deleted.",
    ),
    (
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        "1",
        at_least(1),
        "Replication factor of __share_group_state.",
    ),
    ("share.coordinator.state.topic.segment.bytes", INT, "104857600", at_least(1), "Segment size of __share_group_state."),
)

_COORDINATORS_DYNAMIC: tuple[Row, ...] = (
    ("producer.id.expiration.ms", INT, "86400000", at_least(1), "How long an idle producer's sequence numbers are kept."),
    (
        "transaction.partition.verification.enable",
        BOOLEAN,
        "true",
        None,
        "Whether a transactional Produce needs its partition to be added first (KIP-890).",
    ),
)


_TELEMETRY: tuple[Row, ...] = (
    (
        TELEMETRY,
        BOOLEAN,
        "true",
        None,
        "Whether clients may push their own metrics (KIP-714). Needs the extra `metrics`. Not one of Kafka's.",
    ),
    (
        "minibroker.telemetry.interval.ms",
        INT,
        "5000",
        between(0, 3_600_000),
        "How often clients push all of their metrics, while no client metrics are configured. 0: they push none. Not one of Kafka's.",
    ),
    ("telemetry.max.bytes", INT, "1048576", at_least(1), "Largest push of a client's metrics, before and after decompression."),
)

_STATIC_ROWS = (
    *_IDENTITY,
    *_NETWORK,
    *_TELEMETRY,
    *_AUTHORIZER,
    *_QUOTAS,
    *_TOPICS,
    *_LOG_STATIC,
    *_COORDINATORS,
    *_SHARE_COORDINATOR,
    *_GROUPS,
)
_DYNAMIC_ROWS = (*_ACCEPTED_DYNAMIC, *_NETWORK_DYNAMIC, *_LOG_DYNAMIC, *_COORDINATORS_DYNAMIC, *_GROUPS_DYNAMIC)

BROKER_PROPERTIES: dict[str, Property] = {row[0]: Property(row, is_dynamic=False) for row in _STATIC_ROWS}
BROKER_PROPERTIES |= {row[0]: Property(row, is_dynamic=True) for row in _DYNAMIC_ROWS}

# Properties with the same meaning, strongest first (DynamicBrokerConfig.brokerConfigSynonyms).
BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {
    name: names
    for names in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in names
}
