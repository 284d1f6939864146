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
    "allow.everyone.if.no.acl.found",
    "log.initial.task.delay.ms",
    "producer.id.expiration.check.interval.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.state.topic.prune.interval.ms",
    "super.users",
}

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
    "auto.create.topics.enable": "The topic has its leader in the same answer; Kafka's clients ask again until it has.",
    "connections.max.idle.ms": "Closed between one and one and a quarter of that time, because one timer checks all connections.",
    "default.replication.factor": _ONE_REPLICA,
    "delete.topic.enable": "The name is free when DeleteTopics answers; Kafka deletes after its answer.",
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
    "min.insync.replicas": _SEVERAL,
    "offsets.topic.replication.factor": _ONE_REPLICA,
    "queued.max.requests": "Limits each connection; Kafka's limits all together.",
    "queued.max.request.bytes": "Kafka has no limit by default. Above ours, requests larger than 32 kB arrive one after the other, and a "
    "connection whose request makes no progress for 10 s is closed; in Kafka unfinished requests block all others.",
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
        "A new classic or streams group waits 3 s for more members. Assignments are computed at most once a second, and members of "
        "the newer groups send a heartbeat every 5 s.",
        "No group waits, assignments are computed immediately, and heartbeats are due every second.",
        "A test of one consumer should not wait for members that never come.",
        properties=(
            "group.initial.rebalance.delay.ms",
            *(
                f"group.{kind}.{what}.ms"
                for kind in _KINDS
                for what in ("assignment.interval", "heartbeat.interval", "min.heartbeat.interval")
            ),
            "group.streams.initial.rebalance.delay.ms",
        ),
    ),
    Difference(
        "late-expressions",
        "Groups",
        "A member's regular expression (KIP-848) is resolved after the request that has it, so the first answer has no partitions. Known "
        "expressions are resolved again after 10 s at the earliest.",
        "It is resolved by that request unless that takes long, and again after 1 s.",
        "The first poll of a test returns records.",
        apis=("ConsumerGroupHeartbeat",),
    ),
    Difference(
        "late-share-partitions",
        "Groups",
        "Share partitions are initialized after the heartbeat that needs them: the first answer to a member has no partitions.",
        "They are initialized by that heartbeat.",
        "The first poll of a test returns records.",
        apis=("ShareGroupHeartbeat",),
    ),
    Difference(
        "late-internal-topics",
        "Groups",
        "Internal topics of a streams group are created after the heartbeat that needs them, which is answered MISSING_INTERNAL_TOPICS.",
        "The heartbeat creates them, and its answer has tasks.",
        "An application is ready immediately.",
        apis=("StreamsGroupHeartbeat",),
    ),
    Difference(
        "group-size",
        "Groups",
        "The number of members of a group has no limit.",
        "It has a limit, which can be changed.",
        "The work of one request grows with the group, and one thread serves all clients.",
        properties=("group.consumer.max.size", "group.max.size", "group.streams.max.size"),
    ),
    Difference(
        "static-member-of-a-full-group",
        "Groups",
        "A static member of KIP-848 or a member of a streams group that was away cannot rejoin a group that is full meanwhile.",
        "It can: its place is kept.",
        "The limit is for new members.",
        remains="It matters only for a full group.",
    ),
    Difference(
        "classic-rebalances",
        "Groups",
        "LeaveGroup with the id of a member that never joined starts a rebalance. A member that repeats a pending request gets no answer. "
        "A rebalance waits for a member that a full group rejected. A hash table decides among protocols with equal votes.",
        "Such a LeaveGroup changes nothing, a repeated request is REBALANCE_IN_PROGRESS, no rebalance waits for rejected members, "
        "and the protocol that most members prefer wins.",
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
        "The leader of a share partition whose state is initialized again continues until its next write is fenced.",
        "It reads the state again immediately.",
        "Members do not lose a delivery.",
        remains=_NEVER,
    ),
    Difference(
        "share-group-epoch",
        "Groups",
        "The epoch of a share group grows with each change of its metadata image, and with retries.",
        "It grows with each change of members, subscriptions and initialized partitions.",
        "Clients compare epochs and do not count them.",
        remains=_NEVER,
    ),
    Difference(
        "first-use",
        "Topics",
        "A topic that a Metadata request creates is UNKNOWN_TOPIC_OR_PARTITION in its answer, and for about 100 ms. A coordinator "
        "whose internal topic does not exist yet is COORDINATOR_NOT_AVAILABLE.",
        "The request creates the topic, and its answer has the leader.",
        "The first request of a test succeeds.",
        properties=("auto.create.topics.enable",),
        apis=("Metadata", "FindCoordinator"),
    ),
    Difference(
        "late-topics",
        "Topics",
        "When CreateTopics answers, the controller knows the topic, and brokers learn of it some milliseconds later. Until then Metadata "
        "and DescribeTopicPartitions do not know it.",
        "Every request knows it.",
        "A program may use a topic that it has created.",
        remains="In part: a deleted topic is unknown immediately, as it nearly always is in Kafka as well.",
        properties=("delete.topic.enable",),
        apis=("CreateTopics", "Metadata", "DescribeTopicPartitions"),
    ),
    Difference(
        "retention-at-once",
        "Topics",
        "Retention is checked every log.retention.check.interval.ms.",
        "A request that alters retention configs checks it as well, before its answer.",
        "A test that empties a topic by retention.ms does not wait for five minutes.",
    ),
    Difference(
        "markers-first",
        "Transactions",
        "EndTxn is answered when the decision is stored. Markers are written after the answer, so a reader under read_committed sees the "
        "records a little later, and an old producer that continues immediately gets CONCURRENT_TRANSACTIONS.",
        "EndTxn is answered when the markers are written.",
        "A test that commits and reads finds its records.",
        apis=("EndTxn", "InitProducerId"),
    ),
    Difference(
        "zombie-epoch",
        "Transactions",
        "EndTxn 5 of a fenced producer may be answered with the next epoch.",
        "It is PRODUCER_FENCED unless it repeats the owner's request.",
        "A zombie must not learn an epoch with which it could write.",
        remains="It would make transactions unsafe.",
    ),
    Difference(
        "waiting-fetch",
        "Connections and versions",
        "One request of a connection is served at a time: a request after a waiting Fetch waits as long as the Fetch.",
        "The Fetch is answered with the available records as soon as the next request of its connection arrives. Other requests of a "
        "connection are served while one waits, up to queued.max.requests.",
        "Spark sends ListOffsets after each Fetch, and would wait half a second each time.",
        properties=("queued.max.requests",),
    ),
    Difference(
        "request-memory",
        "Connections and versions",
        "Requests that did not arrive completely may take any amount of memory. With queued.max.request.bytes, unfinished requests that "
        "fill it block all other connections forever.",
        "They take up to queued.max.request.bytes (256 MB). Then large requests arrive one after the other, and a connection whose request "
        "makes no progress for 10 s is closed.",
        "30 stalled clients must not take 3 GB of a small machine, nor block honest ones.",
        properties=("queued.max.request.bytes",),
    ),
    Difference(
        "socket-options",
        "Connections and versions",
        "Socket buffers have 100 KiB, and 50 connections wait to be accepted.",
        "Socket buffers have the size that the system chooses, and 1024 connections wait, unless the properties are set.",
        "A burst of connections does not wait for a second, and large answers need fewer turns.",
        properties=("socket.listen.backlog.size", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"),
    ),
    Difference(
        "old-versions",
        "Connections and versions",
        "Produce 0 to 2, Fetch 0 to 3, ListOffsets 0, DescribeConfigs 0 and DescribeLogDirs 0 are not served (KIP-896).",
        "They are served.",
        "Clients from Kafka 0.8.2 on can be tested.",
        apis=("Produce", "Fetch", "ListOffsets", "DescribeConfigs", "DescribeLogDirs", "ApiVersions"),
    ),
    Difference(
        "fetch-session-sizes",
        "Connections and versions",
        "The number of fetch sessions has a limit, but not the number of their partitions.",
        "All fetch sessions together hold 100,000 partitions. A client without room is served without a session.",
        "A kilobyte for each partition of each session is the memory of one small process.",
        remains="Clients work without a session; their answers are longer.",
    ),
    Difference(
        "connection-limits",
        "Connections and versions",
        "A connection above max.connections waits, and so does each one above max.connection.creation.rate. Connections of the listener of "
        "brokers do not count against these limits if there are several listeners. A silent connection is closed after "
        "connections.max.idle.ms.",
        "It is closed immediately, and above max.connection.creation.rate after 10 s. All listeners count. A silent connection is "
        "closed between that time and one and a quarter of it.",
        "One timer of a listener checks all its connections. Waiting connections must not take all file descriptors.",
        remains="Clients see a closed connection in both cases, and connect again.",
        properties=("connections.max.idle.ms", "max.connection.creation.rate", "max.connections"),
    ),
    Difference(
        "listeners",
        "Connections and versions",
        "Listeners are opened and closed while the broker runs, and advertise the name of the machine by default.",
        "Listeners do not change, and a listener without a host advertises localhost.",
        "Sockets are opened once. Clients on the same machine should find the broker.",
        remains="Another default address would make a laptop's broker unreachable: set advertised.listeners.",
        properties=("advertised.listeners", "listener.security.protocol.map", "listeners"),
    ),
    Difference(
        "request-timeout",
        "Connections and versions",
        "Brokers wait for each other for request.timeout.ms.",
        "The broker sends no requests to other brokers. Only WriteTxnMarkers waits for so long, while a test holds a high watermark back.",
        "There is one process.",
        remains="There is no other broker to wait for.",
        properties=("request.timeout.ms",),
    ),
    Difference(
        "telemetry",
        "Connections and versions",
        "Clients push their own metrics (KIP-714) only if a plugin receives them, and only what client metrics ask for. Selectors are "
        "regular expressions of Java.",
        "They push all of them every 5 s while no client metrics are configured. Selectors have RE2's syntax; a subscription with another "
        f"one matches no client. The first {limits.TELEMETRY_SUBSCRIPTIONS_MAX} subscriptions are in force. "
        "`telemetry.max.bytes` limits the compressed and the decompressed size of a push, as in Apache Kafka. A push also has a largest "
        "number of metrics, and metrics of all clients a largest size in memory (docs/telemetry.md).",
        "Tests and pages show what clients think of themselves without any setting. A pattern must not take exponential time.",
        apis=("ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry"),
    ),
    Difference(
        "replication-factors",
        "Several brokers",
        "New topics have 1 replica, internal topics 3, of which 2 must be in sync for transactions and share groups. With fewer than 3 "
        "brokers internal topics cannot be created by default.",
        "With several brokers all topics have up to 3 replicas, so that a broker may stop; with one broker they have 1.",
        "Defaults should work with any number of brokers.",
        remains="In part: internal topics have as many replicas as there are brokers, at most 3. Otherwise a single broker "
        "would serve no group and no transaction.",
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
        "Followers fetch from leaders, may fall behind, and truncate what their leader does not have. Reading from a new leader or a moved "
        "coordinator needs time.",
        "Nothing is replicated: every broker serves the same log. A replica of a running broker is in sync, a moved coordinator has all "
        "state immediately, locks of share groups survive a change of leaders, and a waiting Fetch is answered when the leader changes.",
        "Several brokers in one process are for tests of clients: they see leaders move, brokers stop and requests fail.",
        remains=f"{_ONE_LOG} There is no second copy that could lack records. Hold the high watermark back to show readers less (lab.md).",
        properties=("min.insync.replicas",),
    ),
    Difference(
        "unclean-elections",
        "Several brokers",
        "A leader that was not in sync lacks what was written while it was away: those records are lost.",
        "An unclean election loses nothing.",
        _ONE_LOG,
        remains="In part: internal topics lose nothing, because the coordinators' state in memory is that of the whole log.",
        properties=("unclean.leader.election.enable",),
    ),
    Difference(
        "reassignments-at-once",
        "Several brokers",
        "A reassignment runs until the new replicas have caught up. ListPartitionReassignments shows it, and it can be cancelled.",
        "It is done when AlterPartitionReassignments answers.",
        "No data is moved.",
        remains="In part: it runs for one second, regardless of the data, and a broker that stops drops it. Reassignments that add no "
        "replica are done immediately, as in Kafka.",
        apis=("AlterPartitionReassignments", "ListPartitionReassignments"),
    ),
    Difference(
        "broker-configs",
        "Several brokers",
        "Every broker uses its own configs. Each broker throttles and logs separately, and leaders are moved back to the preferred replica "
        "every five minutes.",
        "Logs, groups and transactions follow the configs of the configured node. Definitions of quotas, loggers and the clock are shared. "
        "Leaders stay where they are until a client requests an election.",
        _ONE_LOG,
        remains="One process has one log of each partition and one state of each group.",
    ),
    Difference(
        "one-controller",
        "Several brokers",
        "Each node may be a controller, and a transaction is completed when all of its partitions have a leader.",
        "The configured node is the only controller, even while it is stopped. Transactions are also completed in partitions without a "
        "leader.",
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
        "A transaction index that lost its end in a power loss is trusted: records of aborted transactions become committed ones.",
        "It is not trusted above the recovery point.",
        "Aborted records must never be read.",
        remains="It would lose data.",
    ),
    Difference(
        "small-segments",
        "Storage",
        "segment.bytes is at least 1 MiB.",
        "It is at least 14 bytes.",
        "Tests of retention, compaction and data loss need many segments.",
        remains="It allows everything that Kafka allows.",
        properties=("log.segment.bytes",),
    ),
    Difference(
        "data-directory",
        "Storage",
        "log.dir is /tmp/kafka-logs, and node.id must be set.",
        "log.dir is ./data, and node.id is 1.",
        "A broker starts without any property, and data in /tmp does not survive a restart of the machine.",
        remains="It is a place, not behavior.",
        properties=("broker.id", "log.dir", "node.id"),
    ),
    Difference(
        "one-process",
        "Storage",
        "Threads serve requests, and flush, clean and recover logs. Properties set their numbers.",
        "One thread serves requests, a few others sync files, and separate processes compact logs. With "
        "log.flush.interval.messages=1 requests of one turn of the loop share an fsync.",
        _COMPUTES,
        remains="No answer depends on it.",
        properties=("log.cleaner.threads", "log.flush.interval.messages"),
    ),
    Difference(
        "leftover-bytes",
        "Errors and answers",
        "Bytes after the end of a request are ignored.",
        "They close the connection, except after Metadata, where librdkafka 2.16 leaves three.",
        "A client that miscounts should find out.",
        remains="Clients in use leave none.",
    ),
    Difference(
        "first-of-two-errors",
        "Errors and answers",
        "If a request has two errors, Kafka reports the one that it checks first.",
        "It may report the other one.",
        "Cheap checks come first.",
        remains=_NEVER,
    ),
    Difference(
        "kafka-trips",
        "Errors and answers",
        "Some invalid requests are UNKNOWN_SERVER_ERROR, fail the whole request, or are never answered: a negative producer epoch, an "
        "unknown config operation, null records, a topic with neither name nor id, an empty name in DescribeTopicPartitions.",
        "They have the error that describes the problem, for the topic or partition that has it.",
        "The error helps to find the mistake.",
        remains="Those are defects of Kafka.",
    ),
    Difference(
        "words",
        "Errors and answers",
        "Produce reports only an error code for a rejected batch, and returns -1 as log start offset and log append time if it did not "
        "read the log.",
        "It adds a message, and returns the known values.",
        "The message helps to find the mistake.",
        remains=_NEVER,
    ),
    Difference(
        "blanks",
        "Errors and answers",
        "A number in a config is stored with the blanks around it.",
        "It is stored without them.",
        "Blanks mean nothing.",
        remains=_NEVER,
    ),
    Difference(
        "aborted-transactions",
        "Errors and answers",
        "Fetch under read_committed lists aborted transactions up to the next index entry, and null where no batch fits.",
        "It lists those within the records, and an empty list.",
        "That is what a consumer needs.",
        remains=_NEVER,
    ),
    Difference(
        "whole-batches",
        "Errors and answers",
        "Fetch fills its limit with a part of a batch, which clients discard.",
        "It returns whole batches.",
        "Clients do not read those bytes.",
        remains="Clients discard the incomplete batch, and see the same records.",
    ),
    Difference(
        "batch-limits",
        "Errors and answers",
        "Compressed batches of any ratio are accepted, and an answer to Produce names every invalid record.",
        "A compressed batch may become 16 MiB, or 1040 times its size, and 100 MiB at most. It may have 4,096 members, frames or blocks, "
        "and one more for each 512 bytes. The first 1,000 invalid records are named.",
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
        "A delegation token may have an owner of any type, who logs in as the user of that name. Their number is not limited. A client can "
        "log in with an expired token until it is removed.",
        f"An owner is a user: INVALID_PRINCIPAL_TYPE. A cluster has {limits.DELEGATION_TOKENS_MAX} tokens at most, of which a user "
        f"requested {limits.DELEGATION_TOKENS_OF_REQUESTER_MAX} at most. A token has {limits.TOKEN_RENEWERS_MAX} renewers at most, with "
        f"{limits.TOKEN_PRINCIPAL_SIZE_MAX} characters each: POLICY_VIOLATION. No client can log in with an expired token.",
        "Who may issue tokens for Group:alice must not become User:alice, nor fill the metadata log.",
        remains="Clients ask for tokens of users, and stay far below the limits.",
    ),
    Difference(
        "authorization",
        "Errors and answers",
        "A Fetch waits though topics are refused. ShareFetch then fails with UNKNOWN_SERVER_ERROR, AlterShareGroupOffsets shows ids.",
        f"Refused topics are answered at once, without ids. DeleteAcls takes {limits.ACL_FILTERS_MAX} filters. The audit log has a limit.",
        "A client should learn at once what it may not do, and nothing about topics that it may not describe.",
        remains="Clients get the same errors for the same topics.",
    ),
    Difference(
        "deleted-topics",
        "Errors and answers",
        "A fetch session keeps the name of a deleted topic: UNKNOWN_TOPIC_OR_PARTITION.",
        "UNKNOWN_TOPIC_ID.",
        "The client requested the topic by its id.",
        remains="Clients refresh their metadata in both cases.",
    ),
    Difference(
        "timestamps-below-the-log-start",
        "Errors and answers",
        "ListOffsets by timestamp may find records that DeleteRecords removed, or stop there.",
        "It finds the first record that can be read.",
        "An offset below the log start cannot be read.",
        remains="Kafka's answers depend on where segments start.",
    ),
    Difference(
        "scram-of-unknown-users",
        "Errors and answers",
        "A SCRAM login of an unknown user fails at its first message.",
        "It gets a salt that looks real, and fails at its last message, as a login with a wrong password does.",
        "A client must not find out which users exist.",
        remains="Clients get the same error in both cases.",
    ),
    Difference(
        "strict-scram-messages",
        "Errors and answers",
        "The channel binding in the last message of a SCRAM login is not compared, and mandatory extensions (m=) are ignored.",
        "The last message must repeat the channel binding, and mandatory extensions fail.",
        "RFC 5802 requires it.",
        remains="All clients do what RFC 5802 requires.",
    ),
    Difference(
        "unserved",
        "Errors and answers",
        "GSSAPI (Kerberos), tiered storage and controllers of other nodes are served.",
        "They are not advertised.",
        "NOT_DONE.md lists what comes later and what does not.",
        remains="There is nothing to switch to.",
    ),
)
BY_NAME: Final = {difference.name: difference for difference in DIFFERENCES}
