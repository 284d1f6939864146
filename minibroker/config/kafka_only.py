"""Properties of Apache Kafka 4.3.1 that have no effect here, and why: files and environments written for Kafka set them.

Most say how brokers of a cluster work together, and are passed over in silence: whoever sets them misses nothing on one node. Those that
would change what a client meets (who may do what, code in Java) are warned of. Every name of Kafka's is either here or in a table of
properties; `tests/config/test_kafka_only.py` holds that against Kafka's own documentation.
"""

from __future__ import annotations

from typing import NamedTuple


class Ignored(NamedTuple):
    """Why a property has no effect, and whether the operator must know."""

    reason: str
    is_warned_of: bool


_SECURITY = Ignored("there is neither TLS nor SASL nor authorization: whoever reaches a listener may do everything", is_warned_of=True)
_JAVA = Ignored("classes in Java are not loaded", is_warned_of=True)
_LIMITS = Ignored("this is not held to", is_warned_of=True)
_CLUSTER = Ignored("it says how brokers and controllers of a cluster work together", is_warned_of=False)
_TIERED = Ignored("there is no tiered storage", is_warned_of=False)
_METRICS = Ignored("there are no metrics reporters", is_warned_of=False)
_MACHINERY = Ignored("it sizes threads and buffers that are not here", is_warned_of=False)
_JVM = Ignored("it is for a JVM or its logging", is_warned_of=False)
_OTHERS = Ignored("it belongs to another product, or to an older Kafka", is_warned_of=False)

#: exact names, strongest
_NAMES: dict[Ignored, tuple[str, ...]] = {
    _SECURITY: (
        "allow.everyone.if.no.acl.found", "authorizer.class.name", "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms", "early.start.listeners", "principal.builder.class", "security.providers", "super.users",
    ),
    _JAVA: (
        "alter.config.policy.class.name", "client.quota.callback.class", "config.providers", "create.topic.policy.class.name",
        "replica.selector.class",
    ),
    _LIMITS: ("cordoned.log.dirs", "max.connection.creation.rate", "transaction.two.phase.commit.enable"),
    _CLUSTER: (
        "add.partitions.to.txn.retry.backoff.max.ms", "add.partitions.to.txn.retry.backoff.ms", "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms", "broker.id.generation.enable", "broker.session.timeout.ms", "controlled.shutdown.enable",
        "controller.socket.timeout.ms", "initial.broker.registration.timeout.ms", "inter.broker.listener.name",
        "leader.imbalance.check.interval.seconds", "metadata.max.idle.interval.ms", "num.replica.alter.log.dirs.threads", "process.roles",
        "reserved.broker.max.id", "security.inter.broker.protocol", "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
    ),
    _TIERED: ("follower.fetch.last.tiered.offset.enable",),
    _METRICS: ("auto.include.jmx.reporter", "metric.reporters", "telemetry.max.bytes"),
    _MACHINERY: (
        "delete.records.purgatory.purge.interval.requests", "fetch.purgatory.purge.interval.requests",
        "group.coordinator.append.linger.ms", "group.coordinator.background.threads", "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.new.enable", "group.coordinator.threads", "log.dir.failure.timeout.ms", "metadata.log.segment.ms",
        "offsets.commit.required.acks", "offsets.commit.timeout.ms", "offsets.load.buffer.size", "offsets.topic.compression.codec",
        "producer.purgatory.purge.interval.requests", "share.coordinator.append.linger.ms", "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size", "share.coordinator.state.topic.compression.codec", "share.coordinator.threads",
        "share.coordinator.write.timeout.ms", "share.fetch.purgatory.purge.interval.requests", "transaction.state.log.load.buffer.size",
    ),
    _OTHERS: ("control.plane.listener.name", "inter.broker.protocol.version", "log.message.format.version"),
}  # fmt: skip

#: beginnings of names, where the whole family has no effect
_PREFIXES: dict[str, Ignored] = {
    "sasl.": _SECURITY,
    "ssl.": _SECURITY,
    "delegation.token.": _SECURITY,
    "listener.name.": _SECURITY,  # listener.name.internal.ssl.keystore.location
    "alter.log.dirs.replication.": _CLUSTER,
    "controller.quorum.": _CLUSTER,
    "replica.": _CLUSTER,
    "replication.": _CLUSTER,
    "remote.": _TIERED,
    "rlmm.config.": _TIERED,
    "rsm.config.": _TIERED,
    "kafka.metrics.": _METRICS,
    "metrics.": _METRICS,
    "jmx.": _JVM,
    "log4j.": _JVM,
    "confluent.": _OTHERS,
    "password.encoder.": _OTHERS,
    "rest.": _OTHERS,  # of Confluent's REST proxy, in its image for tests: Testcontainers for Go sets one
    "zookeeper.": _OTHERS,
}

#: older names, which Kafka itself does not know any more, and what says the same today
_REPLACED: dict[str, str] = {
    "advertised.host.name": "advertised.listeners=PLAINTEXT://HOST:PORT",
    "advertised.port": "advertised.listeners=PLAINTEXT://HOST:PORT",
    "delegation.token.master.key": "delegation.token.secret.key",
    "host.name": "listeners=PLAINTEXT://HOST:PORT",
    "log.message.timestamp.difference.max.ms": "log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    "port": "listeners=PLAINTEXT://:PORT",
    "quota.consumer.default": "'minibroker quotas alter --default-client-id --set consumer_byte_rate=BYTES'",
    "quota.producer.default": "'minibroker quotas alter --default-client-id --set producer_byte_rate=BYTES'",
}

KAFKA_ONLY: dict[str, Ignored] = {name: ignored for ignored, names in _NAMES.items() for name in names}


def ignored(name: str) -> Ignored | None:
    """Why a property of Kafka's has no effect here; None for one that is not Kafka's, or has one."""
    if name in _REPLACED:
        return Ignored(f"Kafka 4 does not know it any more: use {_REPLACED[name]}", is_warned_of=True)
    found = KAFKA_ONLY.get(name)
    if found is None:
        found = next((why for prefix, why in _PREFIXES.items() if name.startswith(prefix)), None)
    return found


def families() -> dict[Ignored, list[str]]:
    """For the reference page: by reason, names and beginnings of names."""
    found: dict[Ignored, list[str]] = {}
    for why, names in _NAMES.items():
        found.setdefault(why, []).extend(names)
    for prefix, why in _PREFIXES.items():
        found.setdefault(why, []).append(f"{prefix}*")
    return {why: sorted(names) for why, names in found.items()}
