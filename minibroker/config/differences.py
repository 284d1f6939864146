"""How properties differ from Apache Kafka 4.3.1's of the same name: in their default, in their effect, or in having none.

Defaults differ because there is one node that should be ready at once; what follows from there being one replica is said once, here.
"""

from __future__ import annotations

from typing import Final

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
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)  # fmt: skip

_ONE_REPLICA: Final = "There is one replica of everything; with several brokers more are told to clients, and nothing is replicated."
_SEVERAL: Final = "Counts with several brokers alone: one broker's replica is always in sync."
_GROUP_SIZE: Final = "Kafka sets no limit. The work of one heartbeat or JoinGroup grows with the group: about 25 ms at 5,000 members."
_AT_ONCE: Final = "Nobody waits for members that may come: tests of one consumer begin at once."

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
    "log.dirs": "When the last one fails the broker stays up and answers KAFKA_STORAGE_ERROR; Kafka ends.",
    "log.flush.interval.messages": "With 1 the requests of one turn share an fsync, before any of them is acknowledged.",
    "log.segment.bytes": "May be as small as 14, for tests of retention and of data loss; Kafka asks for 1048576 or more.",
    "max.connections": "One more is closed at once; Kafka leaves it waiting.",
    "min.insync.replicas": f"{_SEVERAL} Kafka refuses a value for a single broker (for all brokers it takes one) while eligible leader "
    "replicas (KIP-966) are on, as they are by default.",
    "offsets.topic.replication.factor": _ONE_REPLICA,
    "queued.max.requests": "Of one connection; Kafka's is of all together.",
    "request.timeout.ms": "Of WriteTxnMarkers alone, where a high watermark is held back: the broker asks nobody else for anything.",
    "share.coordinator.state.topic.replication.factor": _ONE_REPLICA,
    "socket.listen.backlog.size": "1024 when it is not set: with 50 a burst of connections waits for a second.",
    "socket.receive.buffer.bytes": "The system's own size, which adapts, when it is not set.",
    "socket.send.buffer.bytes": "The system's own size, which adapts, when it is not set.",
    "transaction.state.log.replication.factor": _ONE_REPLICA,
    "unclean.leader.election.enable": _SEVERAL,
}
