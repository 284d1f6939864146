"""Properties of Apache Kafka 4.3.1 that have no effect here, the reason for each, and the warnings about them and about unknown names.

Files and environments written for Kafka set them. Most configure how the brokers of a cluster work together, and are ignored silently,
because a single node does not need them. Properties that would change what clients see (authorization, Java classes) are warned about.
Each of Kafka's properties is either here or in a table of properties; `tests/config/test_kafka_only.py` compares them with Kafka's
documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from minibroker.config.broker_properties import BROKER_PROPERTIES, LIMITS_OF_LISTENERS
from minibroker.config.kafka_table import base_name
from minibroker.config.security_properties import JAAS_FILE, SECURITY_PROPERTIES, listener_in, security_property

_OPEN = frozenset({"", "PLAINTEXT"})  #: protocols without TLS and SASL; the empty one is that of a controller's listener
_TYPING_ERROR = 0.9  #: similarity of names that differ by a letter or two


class IgnoredProperty(NamedTuple):
    """Why a property has no effect, and whether the operator is warned."""

    reason: str
    is_warned_of: bool


_UNSECURED = IgnoredProperty("no listener uses TLS or SASL", is_warned_of=True)
_PLAINTEXT = IgnoredProperty("its listener uses neither TLS nor SASL", is_warned_of=True)
_NO_LISTENER = IgnoredProperty("there is no listener of this name", is_warned_of=True)
_ONE_LISTENER = IgnoredProperty("it is the same for all listeners", is_warned_of=True)
_GSSAPI = IgnoredProperty("GSSAPI (Kerberos) is not served", is_warned_of=True)
_JAVA = IgnoredProperty("Java classes are not loaded", is_warned_of=True)
_LIMITS = IgnoredProperty("the limit is not enforced", is_warned_of=True)
_CLUSTER = IgnoredProperty("it configures how brokers and controllers of a cluster work together", is_warned_of=False)
_TIERED = IgnoredProperty("there is no tiered storage", is_warned_of=False)
_METRICS = IgnoredProperty("there are no metrics reporters", is_warned_of=False)
_MACHINERY = IgnoredProperty("it sizes threads and buffers that minibroker does not have", is_warned_of=False)
_JVM = IgnoredProperty("it is for a JVM or its logging", is_warned_of=False)
_OTHERS = IgnoredProperty("it belongs to another product, or to an older Kafka", is_warned_of=False)

#: exact names, which override prefixes
_NAMES: dict[IgnoredProperty, tuple[str, ...]] = {
    _JAVA: (
        "alter.config.policy.class.name", "client.quota.callback.class", "config.providers", "create.topic.policy.class.name",
        "replica.selector.class", "security.providers", "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    ),
    _LIMITS: ("cordoned.log.dirs", "transaction.two.phase.commit.enable"),
    _CLUSTER: (
        "add.partitions.to.txn.retry.backoff.max.ms", "add.partitions.to.txn.retry.backoff.ms", "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms", "broker.id.generation.enable", "broker.session.timeout.ms", "controlled.shutdown.enable",
        "controller.socket.timeout.ms", "early.start.listeners", "initial.broker.registration.timeout.ms", "inter.broker.listener.name",
        "leader.imbalance.check.interval.seconds", "metadata.max.idle.interval.ms", "num.replica.alter.log.dirs.threads", "process.roles",
        "reserved.broker.max.id", "sasl.client.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url",
        "security.inter.broker.protocol", "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms", "ssl.endpoint.identification.algorithm",
        "unstable.api.versions.enable", "unstable.feature.versions.enable",
    ),
    _TIERED: ("follower.fetch.last.tiered.offset.enable",),
    _METRICS: ("auto.include.jmx.reporter", "metric.reporters"),
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

#: prefixes of names whose whole family has no effect
_PREFIXES: dict[str, IgnoredProperty] = {
    "sasl.kerberos.": _GSSAPI,
    "sasl.login.": _CLUSTER,  # of a broker as a client of other brokers
    "sasl.mechanism.": _CLUSTER,
    "sasl.oauthbearer.assertion.": _CLUSTER,
    "sasl.oauthbearer.client.credentials.": _CLUSTER,
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

#: older names, which Kafka no longer knows, and what replaces them
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

KAFKA_ONLY: dict[str, IgnoredProperty] = {name: ignored for ignored, names in _NAMES.items() for name in names}


def ignored(name: str) -> IgnoredProperty | None:
    """Return why a property of Kafka has no effect here; None if it is unknown, or has an effect."""
    base = base_name(name)
    if base is not None:
        if base in BROKER_PROPERTIES:
            return _ONE_LISTENER
        name = base
    if name in _REPLACED:
        return IgnoredProperty(f"Kafka 4 no longer knows it: use {_REPLACED[name]}", is_warned_of=True)
    found = KAFKA_ONLY.get(name)
    if found is None:
        found = next((why for prefix, why in _PREFIXES.items() if name.startswith(prefix)), None)
    return found


def _ignored_of(name: str, listeners: Mapping[str, str]) -> IgnoredProperty | None:
    """Return why a property of security or of a listener's limits has no effect with these listeners; None if it has one."""
    listener = listener_in(name)
    if listener is None:
        return None if any(protocol not in _OPEN for protocol in listeners.values()) else _UNSECURED
    if listener not in listeners:
        return _NO_LISTENER
    return _PLAINTEXT if listeners[listener] == "PLAINTEXT" and base_name(name) not in LIMITS_OF_LISTENERS else None


def families() -> dict[IgnoredProperty, list[str]]:
    """Return names and prefixes by reason, for the reference page."""
    found: dict[IgnoredProperty, list[str]] = {}
    for why, names in _NAMES.items():
        found.setdefault(why, []).extend(names)
    for prefix, why in _PREFIXES.items():
        found.setdefault(why, []).append(f"{prefix}*")
    return {why: sorted(names) for why, names in found.items()}


def warnings_of(
    unknown: Mapping[str, str],
    variables: Mapping[str, str] = MappingProxyType({}),
    listeners: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Return a warning for each reason and each unknown name. Empty values are not warned about.

    Args:
        unknown: Properties that are not in `BROKER_PROPERTIES`.
        variables: The environment variables that set properties, which the warnings name.
        listeners: The protocol of each listener by its lower-case name; an empty one for those of Kafka's controller.
    """
    by_reason: dict[str, list[str]] = {}
    lines = []
    for name in sorted(unknown):
        if name == JAAS_FILE or security_property(name) is not None or base_name(name) in LIMITS_OF_LISTENERS:
            why = _ignored_of(name, listeners)
            if why is not None and unknown[name].strip():
                by_reason.setdefault(why.reason, []).append(name)
            continue
        why = ignored(name)
        known, base = {*BROKER_PROPERTIES, *SECURITY_PROPERTIES}, base_name(name) or name
        of_a_family = why is not None and base not in KAFKA_ONLY and base not in known
        if why is None or (of_a_family and nearest(base, known, _TYPING_ERROR)):
            near = nearest(base, known)
            note = f" ({variables[name]})" if name in variables else ""
            lines.append(f"unknown property {name}{note} is ignored{f': did you mean {near}?' if near else ''}")
        elif why.is_warned_of and unknown[name].strip() and listeners.get(listener_in(name) or "") != "":
            by_reason.setdefault(why.reason, []).append(name)
    return lines + [f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect: {reason}" for reason, names in by_reason.items()]


def nearest(name: str, known: Iterable[str], likeness: float = 0.7) -> str | None:
    """Return the known name that is most similar, if its similarity (at most 1) is high enough."""
    import difflib  # noqa: PLC0415  only a mistyped name needs it

    matches = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return matches[0] if matches else None
