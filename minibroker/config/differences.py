"""Deliberate differences from Apache Kafka 4.3.1: in defaults of properties, in their effect, and in behavior.

DIFFERENCES lists all of them, and what `minibroker.like.kafka` changes. docs/differences.md is generated from it
(`python -m tests.config.differences_page`), and tests/golden/test_both_modes.py compares answers with the switch on and off.
"""

from __future__ import annotations

from typing import Final

from minibroker.config import request_limits as limits
from minibroker.config.difference import Difference

_INT_MAX: Final = str(2**31 - 1)
_KINDS: Final = ("consumer", "share", "streams")
_INTERVALS: Final = ("assignment.interval", "heartbeat.interval", "min.heartbeat.interval")

#: broker property -> Apache Kafka's default, if it is different
KAFKA_DEFAULTS: Final[dict[str, str | None]] = {
    "broker.id": "-1",
    "group.consumer.max.size": _INT_MAX,
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.size": _INT_MAX,
    "group.streams.initial.rebalance.delay.ms": "3000",
    "group.streams.max.size": _INT_MAX,
    "log.dir": "/tmp/kafka-logs",  # noqa: S108  Kafka's own
    "node.id": None,
    "offsets.topic.replication.factor": "3",
    "queued.max.request.bytes": "-1",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    **{f"group.{kind}.assignment.interval.ms": "1000" for kind in _KINDS},
    **{f"group.{kind}.heartbeat.interval.ms": "5000" for kind in _KINDS},
    **{f"group.{kind}.min.heartbeat.interval.ms": "5000" for kind in _KINDS},
}

#: Identity and data directory are not behavior, so `minibroker.like.kafka` does not change these defaults.
_PLACES: Final = frozenset({"broker.id", "node.id", "log.dir"})
#: the defaults in force with `minibroker.like.kafka`
LIKE_KAFKA_DEFAULTS: Final = {name: default for name, default in KAFKA_DEFAULTS.items() if name not in _PLACES}

#: broker properties that can change while Apache Kafka runs, and are read-only here, because sockets are opened once
READ_ONLY_HERE: Final = frozenset({"listeners", "listener.security.protocol.map"})

_METRICS: Final = ("minibroker.metrics.host", "minibroker.metrics.names", "minibroker.metrics.port")
#: broker properties that Apache Kafka does not have
ONLY_OURS: Final = frozenset(
    {
        "cluster.id", "minibroker.like.kafka", "minibroker.request.memory.bytes", "minibroker.sender.threads",
        "minibroker.telemetry", "minibroker.telemetry.interval.ms", "topic.partition.count.map", *_METRICS,
    }
)  # fmt: skip

#: broker properties that Apache Kafka does not have or does not document
NOT_KAFKAS: Final = ONLY_OURS | {
    "allow.everyone.if.no.acl.found", "log.initial.task.delay.ms", "producer.id.expiration.check.interval.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms", "share.coordinator.state.topic.prune.interval.ms", "super.users",
}  # fmt: skip

#: properties of brokers and topics that are accepted, checked, stored and described, without any effect
NO_EFFECT: Final = frozenset(
    {
        "background.threads", "follower.replication.throttled.rate", "follower.replication.throttled.replicas", "group.share.assignors",
        "leader.replication.throttled.rate", "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms",
        "log.cleaner.io.buffer.size", "log.local.retention.bytes", "log.local.retention.ms", "log.preallocate",
        "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers", "preallocate",
        "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
    }
)  # fmt: skip

_ONE_REPLICA: Final = "There is one replica of everything. With several brokers, clients see more replicas, but nothing is replicated."
_SEVERAL: Final = "It has an effect only with several brokers: the only replica of a single broker is always in sync."
_GROUP_SIZE: Final = "Kafka sets no limit. The work of one heartbeat or JoinGroup grows with the group: about 25 ms at 5,000 members."
_AT_ONCE: Final = "A group does not wait for more members, so tests of one consumer start immediately."

#: broker property -> how its effect differs
EFFECTS: Final[dict[str, str]] = {
    "advertised.listeners": "A listener without a host is advertised as localhost; Kafka advertises the name of its machine.",
    "auto.create.topics.enable": "The topic has its leader when the broker answers; with Kafka, clients retry until it has.",
    "connections.max.idle.ms": "Closed after 1 to 1.25 times that time, because one timer checks all connections.",
    "default.replication.factor": _ONE_REPLICA,
    "delete.topic.enable": "The name is free when DeleteTopics answers; Kafka deletes the topic after it has answered.",
    "group.consumer.max.size": _GROUP_SIZE,
    "group.initial.rebalance.delay.ms": _AT_ONCE,
    "group.max.size": _GROUP_SIZE,
    "group.streams.initial.rebalance.delay.ms": _AT_ONCE,
    "group.streams.max.size": _GROUP_SIZE,
    "listeners": "Read-only; Kafka opens and closes listeners while it runs.",
    "listener.security.protocol.map": "Read-only; Kafka can change it for new listeners.",
    "log.cleaner.threads": "Each compaction runs in a separate process.",
    "log.flush.interval.messages": "With 1 the requests of one turn of the loop share an fsync, before any of them is acknowledged.",
    "log.segment.bytes": "May be as small as 14, for tests of retention and of data loss; Kafka requires 1048576 or more.",
    "max.connections": "A further connection is closed; in Kafka it waits.",
    "max.connection.creation.rate": "A connection that would wait for more than 10 s is closed; in Kafka it waits in the system's queue.",
    "log.index.interval.bytes": "More than 262144 has the effect of 262144, because a look-up reads all batches between two entries.",
    "min.insync.replicas": _SEVERAL,
    "offsets.topic.replication.factor": _ONE_REPLICA,
    "queued.max.requests": "Limits each connection; Kafka's limits all together.",
    "queued.max.request.bytes": "Kafka has no limit by default. Above this limit, requests larger than 32 kB arrive one after the other, "
    "and a connection whose request makes no progress for 10 s is closed; in Kafka unfinished requests block all others.",
    "request.timeout.ms": "Only of WriteTxnMarkers, while a test holds a high watermark back: brokers send each other no requests.",
    "share.coordinator.state.topic.replication.factor": _ONE_REPLICA,
    "socket.listen.backlog.size": "1024 if it is not set: with 50 a burst of connections waits for a second.",
    "socket.receive.buffer.bytes": "The system's default, which adapts, if it is not set.",
    "socket.send.buffer.bytes": "The system's default, which adapts, if it is not set.",
    "transaction.state.log.replication.factor": _ONE_REPLICA,
    "unclean.leader.election.enable": _SEVERAL,
}


_NEVER: Final = "No client can rely on the other behavior."
_ONE_LOG: Final = "There is one log of each partition, regardless of the number of brokers."
_INTERNAL: Final = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
_COMPUTES: Final = "It computes less than Kafka's brokers do."

DIFFERENCES: Final = (
    Difference(
        "group-times",
        "Groups",
        "A new classic or streams group waits 3 s for more members. Assignments are computed at most once a second, and members of the "
        "newer groups send a heartbeat every 5 s.",
        "No group waits, assignments are computed immediately, and heartbeats are due every second.",
        "A test of one consumer should not wait for members that never come.",
        properties=(
            "group.initial.rebalance.delay.ms",
            *(f"group.{kind}.{what}.ms" for kind in _KINDS for what in _INTERVALS),
            "group.streams.initial.rebalance.delay.ms",
        ),
    ),
    Difference(
        "late-expressions",
        "Groups",
        "The coordinator resolves a member's regular expression (KIP-848) after the heartbeat that contains it, so the first answer has "
        "no partitions. It resolves known expressions again after 10 s at the earliest.",
        "The heartbeat resolves the expression, unless that takes long. The coordinator resolves it again after 1 s.",
        "The first poll of a test returns records.",
        apis=("ConsumerGroupHeartbeat",),
    ),
    Difference(
        "late-share-partitions",
        "Groups",
        "The coordinator initializes share partitions after the heartbeat that needs them, so a member's first answer has none.",
        "The heartbeat initializes share partitions, and its answer has them.",
        "The first poll of a test returns records.",
        apis=("ShareGroupHeartbeat",),
    ),
    Difference(
        "late-internal-topics",
        "Groups",
        "The heartbeat that needs internal topics of a streams group gets MISSING_INTERNAL_TOPICS, and they are created afterwards.",
        "The heartbeat creates the topics, and its answer has tasks.",
        "An application is ready immediately.",
        apis=("StreamsGroupHeartbeat",),
    ),
    Difference(
        "group-size",
        "Groups",
        "The number of members of a group has no limit.",
        "A group has at most 5,000 members. Properties change this limit.",
        "The work of one request grows with the group, and one thread serves all clients.",
        properties=("group.consumer.max.size", "group.max.size", "group.streams.max.size"),
    ),
    Difference(
        "static-member-of-a-full-group",
        "Groups",
        "A static member (KIP-848) or a member of a streams group cannot rejoin if the group became full in the meantime.",
        "The group keeps a place for the member, so it can rejoin.",
        "The limit is for new members.",
        remains="It matters only for a full group.",
    ),
    Difference(
        "classic-rebalances",
        "Groups",
        "A LeaveGroup of a member that never joined starts a rebalance. A member that repeats a pending request gets no answer. A "
        "rebalance waits for members that a full group rejected. If two assignors have equal votes, the order of a hash table decides.",
        "Such a LeaveGroup changes nothing. A repeated request gets REBALANCE_IN_PROGRESS. Rebalances do not wait for rejected members. "
        "If two assignors have equal votes, the one that most members list first wins.",
        "A group should be ready as soon as its members are.",
        remains="Those are defects of Kafka, and clients behave the same with both.",
    ),
    Difference(
        "group-migrations",
        "Groups",
        "If the broker restarts or a rebalance is cancelled while a group changes between the classic protocol and KIP-848, Kafka may "
        "assign partitions to no member or to two.",
        "The group rebalances.",
        "Each partition is read by one member.",
        remains="It would let two members read a partition.",
    ),
    Difference(
        "share-state-read-again",
        "Groups",
        "If the state of a share partition is initialized again, its leader keeps using the old state until its next write is fenced.",
        "The leader reads the new state immediately.",
        "Members do not lose a delivery.",
        remains=_NEVER,
    ),
    Difference(
        "share-group-epoch",
        "Groups",
        "The epoch of a share group also grows when topics change, and with retries.",
        "The epoch grows with each change of members, subscriptions and initialized partitions.",
        "Clients compare epochs and do not count them.",
        remains=_NEVER,
    ),
    Difference(
        "first-use",
        "Topics",
        "If a Metadata request creates a topic, clients get UNKNOWN_TOPIC_OR_PARTITION for about 100 ms. While the internal topic of a "
        "coordinator does not exist yet, clients get COORDINATOR_NOT_AVAILABLE.",
        "The request creates the topic, and its answer names the leader.",
        "The first request of a test succeeds.",
        properties=("auto.create.topics.enable",),
        apis=("Metadata", "FindCoordinator"),
    ),
    Difference(
        "late-topics",
        "Topics",
        "When CreateTopics answers, the controller knows the topic, and brokers learn of it some milliseconds later. Until then "
        "Metadata and DescribeTopicPartitions do not know it.",
        "Every request finds the topic as soon as CreateTopics has answered.",
        "A program may use a topic that it has created.",
        remains="In part: a deleted topic is unknown immediately, as it nearly always is in Kafka as well.",
        properties=("delete.topic.enable",),
        apis=("CreateTopics", "Metadata", "DescribeTopicPartitions"),
    ),
    Difference(
        "retention-at-once",
        "Topics",
        "The broker applies retention every log.retention.check.interval.ms.",
        "A request that alters retention configs also applies retention, before its answer.",
        "A test that empties a topic by retention.ms does not wait for five minutes.",
    ),
    Difference(
        "markers-first",
        "Transactions",
        "The coordinator answers EndTxn when it has stored the decision, and writes the markers afterwards. Consumers with "
        "read_committed see the records a little later. An old producer that continues immediately gets CONCURRENT_TRANSACTIONS.",
        "The coordinator answers EndTxn when the markers are written.",
        "A test that commits and reads finds its records.",
        apis=("EndTxn", "InitProducerId"),
    ),
    Difference(
        "zombie-epoch",
        "Transactions",
        "A fenced producer that sends EndTxn version 5 may get the next epoch.",
        "A fenced producer gets PRODUCER_FENCED, unless it repeats a request of the current producer.",
        "A zombie must not learn an epoch with which it could write.",
        remains="It would make transactions unsafe.",
    ),
    Difference(
        "waiting-fetch",
        "Connections and versions",
        "The broker serves one request of a connection at a time. A request after a waiting Fetch waits as long as the Fetch.",
        "When the next request of the connection arrives, the broker answers the Fetch with the records that it has. While other "
        "requests of a connection wait, the broker serves later ones, up to queued.max.requests.",
        "Spark sends ListOffsets after each Fetch, and would wait half a second each time.",
        properties=("queued.max.requests",),
    ),
    Difference(
        "request-memory",
        "Connections and versions",
        "Incomplete requests may use any amount of memory, or fill queued.max.request.bytes and block all other connections forever.",
        "Incomplete requests use at most queued.max.request.bytes (256 MB). Above that, the broker reads large requests one after the "
        "other, and closes a connection whose request makes no progress for 10 s.",
        "30 stalled clients must not take 3 GB of a small machine, nor block honest ones.",
        properties=("queued.max.request.bytes",),
    ),
    Difference(
        "socket-options",
        "Connections and versions",
        "Socket buffers have 100 KiB. The listen backlog is 50 connections.",
        "Unless the properties are set, the system chooses the size of socket buffers, and the listen backlog is 1024 connections.",
        "A burst of connections does not wait for a second, and large answers need fewer turns.",
        properties=("socket.listen.backlog.size", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"),
    ),
    Difference(
        "old-versions",
        "Connections and versions",
        "Produce 0 to 2, Fetch 0 to 3, ListOffsets 0, DescribeConfigs 0 and DescribeLogDirs 0 are not served (KIP-896).",
        "The broker serves these versions.",
        "Clients from Kafka 0.8.2 on can be tested.",
        apis=("Produce", "Fetch", "ListOffsets", "DescribeConfigs", "DescribeLogDirs", "ApiVersions"),
    ),
    Difference(
        "fetch-session-sizes",
        "Connections and versions",
        "The number of fetch sessions has a limit, but not the number of their partitions.",
        "All fetch sessions together have at most 100,000 partitions. Other clients get no session.",
        "Each partition of a session takes about a kilobyte of memory.",
        remains="Clients work without a session; their answers are longer.",
    ),
    Difference(
        "connection-limits",
        "Connections and versions",
        "New connections above max.connections or max.connection.creation.rate wait. If there are several listeners, connections of the "
        "inter-broker listener do not count. Idle connections are closed after connections.max.idle.ms.",
        "The broker closes connections above max.connections immediately, and those that wait longer than 10 s because of "
        "max.connection.creation.rate. All listeners count. Idle connections are closed after 1 to 1.25 times connections.max.idle.ms.",
        "One timer of a listener checks all its connections. Waiting connections must not take all file descriptors.",
        remains="Clients see a closed connection in both cases, and connect again.",
        properties=("connections.max.idle.ms", "max.connection.creation.rate", "max.connections"),
    ),
    Difference(
        "listeners",
        "Connections and versions",
        "Listeners can be added and removed while the broker runs. By default they advertise the host name of the machine.",
        "Listeners cannot change while the broker runs. A listener without a host advertises localhost.",
        "Sockets are opened once. Clients on the same machine should find the broker.",
        remains="Another default address would make a laptop's broker unreachable: set advertised.listeners.",
        properties=("advertised.listeners", "listener.security.protocol.map", "listeners"),
    ),
    Difference(
        "request-timeout",
        "Connections and versions",
        "Brokers wait up to request.timeout.ms for answers of other brokers.",
        "The broker sends no requests to other brokers. The property limits only WriteTxnMarkers while a test holds a high watermark back.",
        "There is one process.",
        remains="There is no other broker to wait for.",
        properties=("request.timeout.ms",),
    ),
    Difference(
        "telemetry",
        "Connections and versions",
        "Clients push their own metrics (KIP-714) only if the broker has a plugin that receives them, and only the metrics that a "
        "client metrics config requests. Selectors have Java's syntax of regular expressions.",
        "While no client metrics are configured, clients push all metrics every 5 s. Selectors have RE2's syntax. A subscription with "
        "an invalid selector matches no client. "
        f"The broker uses the first {limits.TELEMETRY_SUBSCRIPTIONS_MAX} subscriptions. "
        "`telemetry.max.bytes` limits the compressed and the decompressed size of a push, as in Apache Kafka. A push also has a largest "
        "number of metrics, and metrics of all clients a largest size in memory (docs/telemetry.md).",
        "Tests and the console show the metrics of clients without any setting. Matching must not take exponential time.",
        apis=("ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry"),
    ),
    Difference(
        "replication-factors",
        "Several brokers",
        "New topics have 1 replica, internal topics 3, of which 2 must be in sync for transactions and share groups. With fewer than 3 "
        "brokers internal topics cannot be created by default.",
        "With several brokers, all topics have up to 3 replicas, so that one broker may stop. With one broker they have 1.",
        "Defaults should work with any number of brokers.",
        remains="In part: internal topics have as many replicas as there are brokers, at most 3. Otherwise a single broker would serve "
        "no group and no transaction.",
        properties=(
            "default.replication.factor",
            *(f"{topic}.replication.factor" for topic in _INTERNAL),
            "share.coordinator.state.topic.min.isr",
            "transaction.state.log.min.isr",
        ),
    ),
    Difference(
        "no-replication",
        "Several brokers",
        "Followers fetch from leaders, may lag, and truncate records that a new leader does not have. A new leader or coordinator needs "
        "time before it serves requests.",
        "Nothing is replicated: every broker serves the same log. Replicas of running brokers are always in sync. A new coordinator has "
        "all state immediately. Acquisition locks of share groups survive a change of leaders. A waiting Fetch is answered when the "
        "leader changes.",
        "Several brokers in one process are for tests of clients: they see leaders move, brokers stop and requests fail.",
        remains=f"{_ONE_LOG} There is no second copy that could lack records. Hold the high watermark back to show readers less (lab.md).",
        properties=("min.insync.replicas",),
    ),
    Difference(
        "unclean-elections",
        "Several brokers",
        "A leader that was not in sync lacks the records that were written while it was away. They are lost.",
        "An unclean election loses nothing.",
        _ONE_LOG,
        remains="In part: internal topics lose nothing, because the coordinators' state in memory is that of the whole log.",
        properties=("unclean.leader.election.enable",),
    ),
    Difference(
        "reassignments-at-once",
        "Several brokers",
        "A reassignment runs until the new replicas have caught up. ListPartitionReassignments shows it, and it can be cancelled.",
        "A reassignment is complete when AlterPartitionReassignments answers.",
        "No data is moved.",
        remains="In part: it runs for one second, regardless of the data, and a broker that stops drops it. Reassignments that add no "
        "replica are done immediately, as in Kafka.",
        apis=("AlterPartitionReassignments", "ListPartitionReassignments"),
    ),
    Difference(
        "broker-configs",
        "Several brokers",
        "Every broker has its own configs, quotas and loggers. Every five minutes, leaders move back to the preferred replicas.",
        "All brokers use the configs of the configured node (node.id) for logs, groups and transactions, and share quotas, loggers and "
        "the clock. Leaders move back only when a client requests an election.",
        _ONE_LOG,
        remains="One process has one log of each partition and one state of each group.",
    ),
    Difference(
        "one-controller",
        "Several brokers",
        "Any node may be the controller. A transaction completes when all of its partitions have a leader.",
        "The configured node is the only controller, even while it is stopped. Transactions also complete in partitions without leader.",
        _ONE_LOG,
        remains="There is one metadata log, and one process that writes it.",
    ),
    Difference(
        "all-directories-offline",
        "Storage",
        "A broker whose last log directory fails exits.",
        "`serve` exits as well. A broker of the test kit, or with a lab, answers KAFKA_STORAGE_ERROR until the directory is healed.",
        "A test that injects a disk failure must survive it.",
        remains="The broker would end the process of the test.",
    ),
    Difference(
        "damaged-transaction-index",
        "Storage",
        "The broker trusts a transaction index that lost its end in a power loss. Records of aborted transactions then become visible.",
        "The broker rebuilds the part of the index after the recovery point.",
        "Aborted records must never be read.",
        remains="It would lose data.",
    ),
    Difference(
        "index-interval",
        "Storage",
        "A segment may have as few index entries as index.interval.bytes says. A look-up reads the headers of all batches between two.",
        "More than 262144 has the effect of 262144.",
        "One request must not hold up the requests of other clients.",
        remains="It would let one request hold up all others.",
        properties=("log.index.interval.bytes",),
    ),
    Difference(
        "small-segments",
        "Storage",
        "segment.bytes is at least 1 MiB.",
        "segment.bytes is at least 14.",
        "Tests of retention, compaction and data loss need many segments.",
        remains="It allows everything that Kafka allows.",
        properties=("log.segment.bytes",),
    ),
    Difference(
        "data-directory",
        "Storage",
        "log.dir is /tmp/kafka-logs. node.id has no default.",
        "log.dir is ./data, and node.id is 1.",
        "A broker starts without any property, and data in /tmp does not survive a restart of the machine.",
        remains="It is a place, not behavior.",
        properties=("broker.id", "log.dir", "node.id"),
    ),
    Difference(
        "one-process",
        "Storage",
        "Thread pools serve requests, and flush, compact and recover logs. Properties set their sizes.",
        "One thread serves requests, a few others sync files, and separate processes compact logs. Concurrent requests share an fsync.",
        _COMPUTES,
        remains="No answer depends on it.",
        properties=("log.cleaner.threads", "log.flush.interval.messages"),
    ),
    Difference(
        "leftover-bytes",
        "Errors and answers",
        "Bytes after the end of a request are ignored.",
        "The broker closes the connection. Metadata is an exception, because librdkafka 2.16 sends three extra bytes.",
        "An error in a client should be noticed.",
        remains="Clients in use leave none.",
    ),
    Difference(
        "first-of-two-errors",
        "Errors and answers",
        "If a request has two errors, Kafka reports the one that it checks first.",
        "The broker may report the other error.",
        "Cheap checks come first.",
        remains=_NEVER,
    ),
    Difference(
        "kafka-trips",
        "Errors and answers",
        "Some invalid requests get UNKNOWN_SERVER_ERROR, an error for the whole request, or no answer: a negative producer epoch, an "
        "unknown config operation, null records, a topic with neither name nor id, an empty name in DescribeTopicPartitions.",
        "The broker returns an error that describes the problem, for the topic or partition that caused it.",
        "The error helps to find the mistake.",
        remains="Those are defects of Kafka.",
    ),
    Difference(
        "words",
        "Errors and answers",
        "For a rejected batch, Produce returns only an error code, with -1 as log start offset and log append time.",
        "It adds a message, and returns the known values.",
        "The message helps to find the mistake.",
        remains=_NEVER,
    ),
    Difference(
        "blanks",
        "Errors and answers",
        "Kafka stores the spaces around a number in a config.",
        "Spaces are removed.",
        "The spaces have no meaning.",
        remains=_NEVER,
    ),
    Difference(
        "aborted-transactions",
        "Errors and answers",
        "A Fetch with read_committed lists aborted transactions up to the next index entry. The list is null if no batch fits.",
        "The Fetch lists the transactions of the returned records. The list is empty if no batch fits.",
        "A consumer needs no others.",
        remains=_NEVER,
    ),
    Difference(
        "whole-batches",
        "Errors and answers",
        "A Fetch response may end with an incomplete batch, which clients discard.",
        "A Fetch response has whole batches.",
        "Clients do not read those bytes.",
        remains="Clients discard the incomplete batch, and see the same records.",
    ),
    Difference(
        "batch-limits",
        "Errors and answers",
        "Compressed batches of any ratio are accepted, and an answer to Produce names every invalid record.",
        "A compressed batch may become 16 MiB, or 1040 times its size, and 100 MiB at most. It may have 4,096 members, frames or "
        "blocks, and one more for each 512 bytes. The first 1,000 invalid records are named.",
        "A few kilobytes must not take the memory and the time of the whole broker.",
        remains="Producers do not send such batches: gzip reaches a ratio of 1032, and their blocks have 32 KiB and more.",
    ),
    Difference(
        "request-limits",
        "Errors and answers",
        "A request may have any number of elements, but write at most 10,000 records into the metadata log.",
        f"Requests that must be processed as a whole are rejected above a limit. INVALID_REQUEST: {limits.FEATURE_UPDATES_MAX} features in "
        f"UpdateFeatures, {limits.LIST_GROUPS_FILTERS_MAX} filters in ListGroups, "
        f"{limits.RESOURCE_TYPES_MAX} types in ListConfigResources, {limits.QUOTA_COMPONENTS_MAX} components in "
        f"DescribeClientQuotas, {limits.CONFIGS_OF_RESOURCE_MAX} configs of one resource, {limits.HEARTBEAT_ELEMENTS_MAX} elements in a "
        "ConsumerGroupHeartbeat, ShareGroupHeartbeat or StreamsGroupHeartbeat, "
        f"{limits.REPEATED_MAX} elements that name the same topic, group or resource, {limits.SHARE_PARTITIONS_MAX} topics and partitions "
        f"in a ShareFetch or ShareAcknowledge, and {limits.SHARE_ELEMENTS_MAX} elements with its acknowledgements. "
        f"SHARE_SESSION_LIMIT_REACHED: {limits.SHARE_PARTITIONS_MAX} partitions in a share session. POLICY_VIOLATION: "
        f"{limits.SCRAM_CHANGES_MAX} users in AlterUserScramCredentials, {limits.QUOTA_ALTERATIONS_MAX} entries, types and operations in "
        f"AlterClientQuotas, {limits.TRANSACTION_PARTITIONS_MAX} partitions in AddPartitionsToTxn. "
        f"STREAMS_INVALID_TOPOLOGY: {limits.STREAMS_SUBTOPOLOGIES_MAX} subtopologies, {limits.STREAMS_TASKS_MAX} tasks.",
        "One request must not block the loop, which serves all clients.",
        remains="Clients in use stay far below.",
    ),
    Difference(
        "delegation-tokens",
        "Errors and answers",
        "A delegation token may have an owner of any type, who logs in as the user of that name. Their number is not limited. A client "
        "can log in with an expired token until it is removed.",
        f"An owner is a user: INVALID_PRINCIPAL_TYPE. A cluster has {limits.DELEGATION_TOKENS_MAX} tokens at most, of which a user "
        f"requested {limits.DELEGATION_TOKENS_OF_REQUESTER_MAX} at most. A token has {limits.TOKEN_RENEWERS_MAX} renewers at most, with "
        f"{limits.TOKEN_PRINCIPAL_SIZE_MAX} characters each: POLICY_VIOLATION. No client can log in with an expired token.",
        "Who may issue tokens for Group:alice must not become User:alice, nor fill the metadata log.",
        remains="Clients ask for tokens of users, and stay far below the limits.",
    ),
    Difference(
        "authorization",
        "Errors and answers",
        "A Fetch waits for records even if some topics are denied. A ShareFetch of denied topics gets UNKNOWN_SERVER_ERROR. "
        "AlterShareGroupOffsets reveals the ids of denied topics.",
        f"Errors for denied topics are returned immediately, without topic ids. DeleteAcls takes at most {limits.ACL_FILTERS_MAX} filters. "
        "The log of denials has a limit per principal.",
        "A client should get the error immediately, and learn nothing about topics that it may not describe.",
        remains="Clients get the same errors for the same topics.",
    ),
    Difference(
        "deleted-topics",
        "Errors and answers",
        "For a deleted topic in a fetch session, the client gets UNKNOWN_TOPIC_OR_PARTITION.",
        "The client gets UNKNOWN_TOPIC_ID.",
        "The client requested the topic by its id.",
        remains="Clients refresh their metadata in both cases.",
    ),
    Difference(
        "timestamps-below-the-log-start",
        "Errors and answers",
        "ListOffsets by timestamp may return the offset of a record that DeleteRecords removed, or no offset.",
        "ListOffsets returns the first record that can be read.",
        "An offset below the log start cannot be read.",
        remains="Kafka's answers depend on where segments start.",
    ),
    Difference(
        "scram-of-unknown-users",
        "Errors and answers",
        "A SCRAM login of an unknown user fails at its first message.",
        "The client gets a generated salt, and the login fails at its last message, as with a wrong password.",
        "Clients must not learn which users exist.",
        remains="Clients get the same error in both cases.",
    ),
    Difference(
        "strict-scram-messages",
        "Errors and answers",
        "The broker does not compare the channel binding in the last message of a SCRAM login, and ignores mandatory extensions (m=).",
        "The last message must repeat the channel binding. Logins with mandatory extensions fail.",
        "RFC 5802 requires it.",
        remains="All clients do what RFC 5802 requires.",
    ),
    Difference(
        "unserved",
        "Errors and answers",
        "Kafka supports GSSAPI (Kerberos), tiered storage, and controllers on other nodes.",
        "The broker does not offer these features.",
        "NOT_DONE.md lists what comes later and what does not.",
        remains="There is nothing to switch to.",
    ),
)
BY_NAME: Final = {difference.name: difference for difference in DIFFERENCES}
