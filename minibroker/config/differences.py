"""How properties differ from Apache Kafka 4.3.1's of the same name: in their default, in their effect, or in having none.

DIFFERENCES lists every deliberate difference, of properties and otherwise, and what `minibroker.like.kafka` changes.
docs/differences.md is made of it (`python -m tests.config.differences_page`), and tests/golden/test_both_modes.py compares answers with the
switch on and off.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minibroker.config import request_limits as limits

_INT_MAX: Final = str(2**31 - 1)
_KINDS: Final = ("consumer", "share", "streams")

#: broker property -> Apache Kafka's default, where it is another one
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

#: Which node this is and where its data are: no behaviour of a broker, so `minibroker.like.kafka` leaves these defaults as they are.
_PLACES: Final = frozenset({"broker.id", "node.id", "log.dir"})

#: the defaults in force with `minibroker.like.kafka`
LIKE_KAFKA_DEFAULTS: Final = {name: default for name, default in KAFKA_DEFAULTS.items() if name not in _PLACES}

#: broker properties that Apache Kafka changes while it runs, and minibroker does not: sockets are opened once
READ_ONLY_HERE: Final = frozenset({"listeners", "listener.security.protocol.map"})

#: broker properties that Apache Kafka has not
ONLY_OURS: Final = frozenset({"cluster.id", "minibroker.like.kafka", "minibroker.request.memory.bytes", "topic.partition.count.map"})

#: those that it has not, or knows and does not document
NOT_KAFKAS: Final = ONLY_OURS | {
    "log.initial.task.delay.ms",
    "producer.id.expiration.check.interval.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.state.topic.prune.interval.ms",
}

#: accepted, checked, stored and shown, and nothing acts on them: of brokers and of topics
NO_EFFECT: Final = frozenset(
    {
        "background.threads", "follower.replication.throttled.rate", "follower.replication.throttled.replicas", "group.share.assignors",
        "leader.replication.throttled.rate", "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms",
        "log.cleaner.io.buffer.size", "log.local.retention.bytes", "log.local.retention.ms", "log.preallocate",
        "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers", "preallocate",
        "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
    }
)  # fmt: skip

_ONE_REPLICA: Final = "There is one replica of everything; with several brokers more are told to clients, and nothing is replicated."
_SEVERAL: Final = "Counts with several brokers alone: one broker's replica is always in sync."
_GROUP_SIZE: Final = "Kafka sets no limit. The work of one heartbeat or JoinGroup grows with the group: about 25 ms at 5,000 members."
_AT_ONCE: Final = "A group does not wait for more members, so tests of one consumer start at once."

#: broker property -> how its effect differs
EFFECTS: Final[dict[str, str]] = {
    "advertised.listeners": "A listener without a host is told as localhost; Kafka tells the name of its machine.",
    "auto.create.topics.enable": "The topic has its leader in the same answer; Kafka's clients ask again until it has.",
    "connections.max.idle.ms": "Closed between one and one and a quarter of that time, by one look at all connections.",
    "default.replication.factor": _ONE_REPLICA,
    "delete.topic.enable": "The name is free when the answer comes; Kafka deletes behind it.",
    "group.consumer.max.size": _GROUP_SIZE,
    "group.initial.rebalance.delay.ms": _AT_ONCE,
    "group.max.size": _GROUP_SIZE,
    "group.streams.initial.rebalance.delay.ms": _AT_ONCE,
    "group.streams.max.size": _GROUP_SIZE,
    "listeners": "PLAINTEXT alone is served, and what is open stays: read-only, where Kafka opens and closes listeners as it runs.",
    "listener.security.protocol.map": "PLAINTEXT alone is served. Read-only.",
    "log.cleaner.threads": "Each is a process of its own beside the broker.",
    "log.flush.interval.messages": "With 1 the requests of one turn share an fsync, before any of them is acknowledged.",
    "log.segment.bytes": "May be as small as 14, for tests of retention and of data loss; Kafka asks for 1048576 or more.",
    "max.connections": "One more is closed at once; Kafka leaves it waiting.",
    "min.insync.replicas": _SEVERAL,
    "offsets.topic.replication.factor": _ONE_REPLICA,
    "queued.max.requests": "Of one connection; Kafka's is of all together.",
    "queued.max.request.bytes": "Kafka has no limit by default. Above ours, requests larger than 32 kB arrive one after the other, and a "
    "connection whose request makes no progress for 10 s is closed; in Kafka unfinished requests hold all others up.",
    "request.timeout.ms": "Of WriteTxnMarkers alone, where a high watermark is held back: the broker asks nobody else for anything.",
    "share.coordinator.state.topic.replication.factor": _ONE_REPLICA,
    "socket.listen.backlog.size": "1024 when it is not set: with 50 a burst of connections waits for a second.",
    "socket.receive.buffer.bytes": "The system's own size, which adapts, when it is not set.",
    "socket.send.buffer.bytes": "The system's own size, which adapts, when it is not set.",
    "transaction.state.log.replication.factor": _ONE_REPLICA,
    "unclean.leader.election.enable": _SEVERAL,
}


class Difference(NamedTuple):
    """One deliberate difference: what a client or an operator notices, why it is so, and what `minibroker.like.kafka` changes."""

    name: str  #: by which tests name it
    area: str  #: of AREAS
    kafka: str  #: what Apache Kafka 4.3.1 does
    here: str  #: what minibroker does
    reason: str
    remains: str = ""  #: what the switch leaves as it is, and why; empty: it turns the difference off
    properties: tuple[str, ...] = ()  #: those whose default or effect it is
    apis: tuple[str, ...] = ()  #: those whose answers the switch changes, by Kafka's names

    @property
    def is_switched(self) -> bool:
        """Whether `minibroker.like.kafka` turns it off, at least in part."""
        return not self.remains or self.remains.startswith(PARTLY)


PARTLY: Final = "In part: "
AREAS: Final = ("Groups", "Topics", "Transactions", "Connections and versions", "Several brokers", "Storage", "Errors and answers")
_NEVER: Final = "No client can rely on the other behavior."
_ONE_LOG: Final = "There is one log of each partition, whatever number of brokers clients see."
_INTERNAL: Final = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
_COMPUTES: Final = "It computes less than Kafka's brokers do."

DIFFERENCES: Final = (
    Difference(
        "group-times",
        "Groups",
        "A new classic or streams group waits 3 s for more members. Assignments are computed at most once a second, and members of "
        "the newer groups send a heartbeat every 5 s.",
        "No group waits, assignments are computed at once, and heartbeats are due every second.",
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
        "An expression of a member (KIP-848) is resolved after the request that brings it: the first answer has no partitions. Known "
        "expressions are resolved again after 10 s at the earliest.",
        "It is resolved by that request unless that is much work, and again after 1 s.",
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
        "An application is ready at once.",
        apis=("StreamsGroupHeartbeat",),
    ),
    Difference(
        "group-size",
        "Groups",
        "The number of members of a group has no limit.",
        "A group has a limit that can be changed.",
        "The work of one request grows with the group, and one thread serves all clients.",
        properties=("group.consumer.max.size", "group.max.size", "group.streams.max.size"),
    ),
    Difference(
        "static-member-of-a-full-group",
        "Groups",
        "A static member of KIP-848, or a member of a streams group, that was away does not get back into a group that is full meanwhile.",
        "It does: its place was kept.",
        "The limit is for members that are new.",
        remains="It shows only where a group has as many members as it may have.",
    ),
    Difference(
        "classic-rebalances",
        "Groups",
        "LeaveGroup with an id that was only given out begins a rebalance. A member that repeats a request that waits is never answered. A "
        "rebalance waits for a member that a full group refused. A hash table decides among protocols with equal votes.",
        "Such a LeaveGroup changes nothing, a repeated request is REBALANCE_IN_PROGRESS, no rebalance waits for members that were refused, "
        "and the protocol that most members prefer wins.",
        "A group should be ready as soon as its members are.",
        remains="Those are defects of Kafka, and clients behave alike with both.",
    ),
    Difference(
        "group-migrations",
        "Groups",
        "When a group changes between the classic protocol and KIP-848 and the broker restarts or a rebalance is given up, Kafka may leave "
        "partitions without a member, or give them to two.",
        "The group rebalances.",
        "Each partition is read by one member.",
        remains="It would let two members read a partition.",
    ),
    Difference(
        "share-state-read-again",
        "Groups",
        "The leader of a share partition whose state is initialized again goes on until its next write is fenced.",
        "It reads the state again at once.",
        "Members do not lose a delivery.",
        remains=_NEVER,
    ),
    Difference(
        "share-group-epoch",
        "Groups",
        "The epoch of a share group grows with each change of its metadata image, and with retries.",
        "It grows with each change of members, subscriptions and initialized partitions.",
        "Epochs are compared, never counted.",
        remains=_NEVER,
    ),
    Difference(
        "first-use",
        "Topics",
        "A topic that a Metadata request is to create is UNKNOWN_TOPIC_OR_PARTITION in that answer, and for some 100 ms. A coordinator "
        "whose internal topic does not exist yet is COORDINATOR_NOT_AVAILABLE.",
        "The request creates the topic, and its answer has the leader.",
        "The first request of a test succeeds.",
        properties=("auto.create.topics.enable",),
        apis=("Metadata", "FindCoordinator"),
    ),
    Difference(
        "late-topics",
        "Topics",
        "When CreateTopics answers the controller knows the topic, and brokers learn of it some milliseconds later. Until then Metadata "
        "and DescribeTopicPartitions do not know it.",
        "Every request knows it.",
        "A program may use a topic that it has created.",
        remains="In part: a topic that was deleted is unknown at once, as it nearly always is in Kafka, too.",
        properties=("delete.topic.enable",),
        apis=("CreateTopics", "Metadata", "DescribeTopicPartitions"),
    ),
    Difference(
        "retention-at-once",
        "Topics",
        "Retention is looked at every log.retention.check.interval.ms.",
        "Also while the request is answered that alters configs of retention.",
        "A test that empties a topic by retention.ms need not wait for five minutes.",
    ),
    Difference(
        "markers-first",
        "Transactions",
        "EndTxn is answered when the decision is stored. Markers are written after the answer, so a reader under read_committed sees the "
        "records a little later, and an old producer that goes on at once is told CONCURRENT_TRANSACTIONS.",
        "EndTxn is answered when the markers are written.",
        "A test that commits and reads finds its records.",
        apis=("EndTxn", "InitProducerId"),
    ),
    Difference(
        "zombie-epoch",
        "Transactions",
        "EndTxn 5 of a producer that was fenced may be answered with the next epoch.",
        "It is PRODUCER_FENCED unless it repeats the owner's own request.",
        "A zombie must not learn an epoch with which it could write.",
        remains="It would make transactions unsafe.",
    ),
    Difference(
        "waiting-fetch",
        "Connections and versions",
        "One request of a connection is served at a time: a request after a Fetch that waits waits as long as the Fetch.",
        "The Fetch is answered with the records there are as soon as the next request of its connection comes. Other requests of a "
        "connection are served while one waits, up to queued.max.requests.",
        "Spark sends ListOffsets after each Fetch, and would wait half a second each time.",
        properties=("queued.max.requests",),
    ),
    Difference(
        "request-memory",
        "Connections and versions",
        "Requests that did not arrive completely may take any amount of memory. With queued.max.request.bytes, unfinished requests that "
        "fill it hold up all other connections for ever.",
        "They take up to queued.max.request.bytes (256 MB). Then large requests arrive one after the other, and a connection whose request "
        "makes no progress for 10 s is closed.",
        "30 stalled clients must not take 3 GB of a small machine, nor stop the honest ones.",
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
        "The number of fetch sessions has a limit, the number of their partitions has not.",
        "All fetch sessions together hold 100,000 partitions. A client without room is served without a session.",
        "A kilobyte for each partition of each session is the memory of one small process.",
        remains="Clients work without a session; their answers are longer.",
    ),
    Difference(
        "connection-limits",
        "Connections and versions",
        "A connection above max.connections waits. A silent connection is closed after connections.max.idle.ms.",
        "It is closed at once. A silent connection is closed between that time and one and a quarter of it.",
        "One timer of a listener looks at all its connections.",
        remains="Clients see a connection that was closed either way, and connect again.",
        properties=("connections.max.idle.ms", "max.connections"),
    ),
    Difference(
        "listeners",
        "Connections and versions",
        "Listeners have any protocol, are opened and closed while the broker runs, and advertise the name of the machine by default.",
        "PLAINTEXT is served, listeners stay as they are, and a listener without a host advertises localhost.",
        "Security is a later issue; clients on the same machine should find the broker.",
        remains="Another default address would make a laptop's broker unreachable: set advertised.listeners.",
        properties=("advertised.listeners", "listener.security.protocol.map", "listeners"),
    ),
    Difference(
        "request-timeout",
        "Connections and versions",
        "Brokers wait for each other for request.timeout.ms.",
        "The broker asks no other one. WriteTxnMarkers alone waits for so long, where a test holds a high watermark back.",
        "There is one process.",
        remains="There is no other broker to wait for.",
        properties=("request.timeout.ms",),
    ),
    Difference(
        "replication-factors",
        "Several brokers",
        "New topics have 1 replica, internal topics 3, of which 2 must be in sync for transactions and share groups. With fewer than 3 "
        "brokers internal topics cannot be created by default.",
        "With several brokers all topics have up to 3 replicas, so that a broker may stop; alone, one.",
        "Defaults should work with any number of brokers.",
        remains="In part: internal topics have as many replicas as there are brokers where that is fewer than 3. Otherwise a single broker "
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
        "Nothing is replicated: every broker serves the same log. A replica that is alive is in sync, a moved coordinator knows all at "
        "once, locks of share groups outlive a change of leaders, and a waiting Fetch is answered when the leader changes.",
        "Several brokers in one process are for tests of clients: they see leaders move, brokers stop and requests refused.",
        remains=f"{_ONE_LOG} There is no second copy that could lack records. Hold the high watermark back to show readers less (lab.md).",
        properties=("min.insync.replicas",),
    ),
    Difference(
        "unclean-elections",
        "Several brokers",
        "A leader that was not in sync lacks what was written while it was away: those records are lost.",
        "An unclean election loses nothing.",
        _ONE_LOG,
        remains="In part: topics of the coordinators lose nothing, since their state in memory is that of the whole log.",
        properties=("unclean.leader.election.enable",),
    ),
    Difference(
        "reassignments-at-once",
        "Several brokers",
        "A reassignment runs until the new replicas have caught up. ListPartitionReassignments shows it, and it can be cancelled.",
        "It is done when AlterPartitionReassignments answers.",
        "No data move.",
        remains="In part: it runs for one second, whatever there is to move, and a broker that stops forgets it. Reassignments that add no "
        "replica are done at once, as in Kafka.",
        apis=("AlterPartitionReassignments", "ListPartitionReassignments"),
    ),
    Difference(
        "broker-configs",
        "Several brokers",
        "Every broker acts upon its own configs. Brokers throttle, log and elect leaders each for itself, and leaders are moved back to "
        "the preferred replica every five minutes.",
        "Logs, groups and transactions follow the configs of the configured node; quotas' definitions, loggers and the clock are shared. "
        "Leaders stay where they are until an election is asked for.",
        _ONE_LOG,
        remains="One process has one log of each partition and one state of each group.",
    ),
    Difference(
        "one-controller",
        "Several brokers",
        "Each node may be a controller, and a transaction is completed when all of its partitions have a leader.",
        "The configured node is the only controller, stopped or not. Transactions are also completed in partitions without a leader.",
        _ONE_LOG,
        remains="There is one metadata log, and one process that writes it.",
    ),
    Difference(
        "all-directories-offline",
        "Storage",
        "A broker whose last log directory fails exits.",
        "So does serve. A broker of the test kit, or with a lab, answers KAFKA_STORAGE_ERROR until the directory is healed.",
        "A test that lets a disk fail must survive it.",
        remains="The broker would take the process of the test with it.",
    ),
    Difference(
        "damaged-transaction-index",
        "Storage",
        "A transaction index that lost its end in a power loss is believed: records of aborted transactions become committed ones.",
        "It is not believed beyond the recovery point.",
        "Aborted records must never be read.",
        remains="It would lose data.",
    ),
    Difference(
        "small-segments",
        "Storage",
        "segment.bytes is at least 1 MiB.",
        "It is at least 14 bytes.",
        "Tests of retention, compaction and data loss need many segments.",
        remains="It forbids nothing that production allows.",
        properties=("log.segment.bytes",),
    ),
    Difference(
        "data-directory",
        "Storage",
        "log.dir is /tmp/kafka-logs, and node.id must be set.",
        "log.dir is ./data, and node.id is 1.",
        "A broker starts without any property, and data in /tmp do not survive a restart of the machine.",
        remains="It names a place, and is no behavior of a broker.",
        properties=("broker.id", "log.dir", "node.id"),
    ),
    Difference(
        "one-process",
        "Storage",
        "Threads serve requests, flush, clean and recover logs, as many as properties say.",
        "One thread serves requests, a few others sync files, and processes beside the broker compact logs. With "
        "log.flush.interval.messages=1 requests of one turn share an fsync.",
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
        remains="Clients that are in use leave none.",
    ),
    Difference(
        "first-of-two-errors",
        "Errors and answers",
        "Of two things that are wrong with a request, Kafka reports the one that it checks first.",
        "It may report the other one.",
        "Checks are in the order in which they cost least.",
        remains=_NEVER,
    ),
    Difference(
        "kafka-trips",
        "Errors and answers",
        "Some invalid requests are UNKNOWN_SERVER_ERROR, fail the whole request, or are never answered: a negative producer epoch, an "
        "unknown config operation, null records, a topic with neither name nor id, an empty name in DescribeTopicPartitions.",
        "They have the error that says what is wrong, for the topic or partition that it is wrong with.",
        "The error helps to find the mistake.",
        remains="Those are defects of Kafka.",
    ),
    Difference(
        "words",
        "Errors and answers",
        "Produce says in an error code why a batch was refused, and returns -1 as log start offset and log append time where it did not "
        "look into the log.",
        "It adds a message, and returns what is known.",
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
        "Fetch fills its limit with the beginning of a batch, which clients throw away.",
        "It returns whole batches.",
        "Bytes that no client reads are not sent.",
        remains="Clients have to throw the cut batch away: they see the same records.",
    ),
    Difference(
        "batch-limits",
        "Errors and answers",
        "Compressed batches of any ratio are accepted, and an answer to Produce names every record at fault.",
        "A compressed batch may become 16 MiB, or 1040 times its size, and 100 MiB at most. It may have 4,096 members, frames or blocks, "
        "and one more for each 512 bytes. The first 1,000 records at fault are named.",
        "A few kilobytes cannot take the memory and the time of the whole broker.",
        remains="Producers send nothing like it: gzip reaches a ratio of 1032, and their blocks have 32 KiB and more.",
    ),
    Difference(
        "request-limits",
        "Errors and answers",
        "A request may have any number of elements, apart from 10,000 records that it may write into the metadata log.",
        f"Requests that must be seen as a whole are refused above a limit. INVALID_REQUEST: {limits.FEATURE_UPDATES_MAX} features in "
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
        "One request must not hold the loop, which serves all clients.",
        remains="No client that is in use comes near.",
    ),
    Difference(
        "deleted-topics",
        "Errors and answers",
        "A fetch session remembers the name of a topic that was deleted: UNKNOWN_TOPIC_OR_PARTITION.",
        "UNKNOWN_TOPIC_ID.",
        "The id is what the client asked by.",
        remains="Clients refresh their metadata for either.",
    ),
    Difference(
        "timestamps-below-the-log-start",
        "Errors and answers",
        "ListOffsets by timestamp may find records that DeleteRecords removed, or give up at them.",
        "It finds the first record that can be read.",
        "An offset below the log start cannot be read.",
        remains="Kafka's answers depend on where segments begin.",
    ),
    Difference(
        "unserved",
        "Errors and answers",
        "SASL, TLS, delegation tokens, tiered storage, telemetry and controllers of other nodes are served.",
        "They are not advertised.",
        "NOT_DONE.md says what comes later and what does not.",
        remains="There is nothing to switch to.",
    ),
)
BY_NAME: Final = {difference.name: difference for difference in DIFFERENCES}
