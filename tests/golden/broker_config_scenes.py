"""Changes of a broker's configs, sent to Apache Kafka by `captures/broker_configs.py` and to minibroker by tests/handlers.

`ATTEMPTS` are only validated. `STEPS` are done, one after the other; each is followed by DescribeConfigs of the broker and of "", the
default of all brokers, with the names in `SEEN`.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k44_incremental_alter_configs as k44

BROKER: Final = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE, ALL = "1", ""
RELOGIN: Final = "sasl.kerberos.min.time.before.relogin"
KEYSTORE: Final = "listener.name.internal.ssl.keystore.location"
KEY_PASSWORD: Final = "listener.name.internal.ssl.key.password"

#: name and value; each is set for the broker and for all brokers
ATTEMPTS: Final = [
    ("invalid", "2"), ("zookeeper.connect", "localhost"), (RELOGIN, "58000"), (RELOGIN, "x"), (RELOGIN, " 7 "),
    ("ssl.cipher.suites", "a,b"),
    ("ssl.keystore.location", "/no"), ("ssl.keystore.password", "secret"), ("ssl.client.auth", "bad"), ("ssl.client.auth", "required"),
    ("ssl.endpoint.identification.algorithm", ""), ("sasl.jaas.config", "secret"), ("sasl.kerberos.ticket.renew.jitter", "x"),
    ("sasl.kerberos.ticket.renew.window.factor", "0.9"), ("sasl.login.refresh.buffer.seconds", "4000"),
    ("sasl.login.refresh.min.period.seconds", "-1"), ("sasl.enabled.mechanisms", "PLAIN"), (KEYSTORE, "/no"), (KEY_PASSWORD, "secret"),
    ("listener.name.internal.anything", "x"), ("listener.name.internal." + RELOGIN, "x"), ("listener.name.internal.max.connections", "7"),
    ("listener.name.internal.log.retention.hours", "7"), ("log.retention.hours", "3"), ("log.retention.hours", "x"), ("node.id", "3"),
    ("broker.id", "1"), ("auto.create.topics.enable", "false"), ("advertised.listeners", "PLAINTEXT://x:1"), ("process.roles", "broker"),
    ("group.consumer.heartbeat.interval.ms", "1"), ("log.segment.bytes", "x"), ("log.message.timestamp.type", "bad"),
    ("producer.id.expiration.ms", "0"), ("log.cleanup.policy", "delete,bad"), ("num.io.threads", "x"), ("num.io.threads", "0"),
    ("num.io.threads", "16"), ("num.io.threads", "17"), ("num.io.threads", "3"), ("num.network.threads", "7"),
    ("num.replica.fetchers", "3"), ("num.recovery.threads.per.data.dir", "9"), ("background.threads", "4"), ("log.cleaner.threads", "3"),
    ("max.connection.creation.rate", "5"), ("max.connection.creation.rate", "-1"), ("metric.reporters", "org.example.X"),
    ("principal.builder.class", "org.example.X"), ("remote.log.manager.copy.max.bytes.per.second", "7"),
    ("remote.log.manager.copy.max.bytes.per.second", "0"), ("remote.list.offsets.request.timeout.ms", "7"),
    ("remote.log.index.file.cache.total.size.bytes", "x"), ("cordoned.log.dirs", "/x"), ("leader.replication.throttled.rate", "-1"),
]  # fmt: skip

#: resource, and the changes (name, operation, value); None for the changes: AlterConfigs with no configs
STEPS: Final[list[tuple[str, list[tuple[str, int, str | None]] | None]]] = [
    (NODE, [("invalid", SET, "2")]),
    (NODE, [(RELOGIN, SET, "58000"), (KEYSTORE, SET, "/no"), (KEY_PASSWORD, SET, "secret"), ("listener.name.internal.anything", SET, "x")]),
    (ALL, [("invalid", SET, "3"), ("other", SET, "4")]),
    (NODE, [("log.retention.hours", DELETE, None), ("never.set", DELETE, None)]),
    (NODE, [("invalid", APPEND, "2")]),
    (NODE, [(RELOGIN, APPEND, "2")]),
    (NODE, [("invalid", DELETE, None), ("num.io.threads", SET, "9")]),
    (ALL, [("invalid", DELETE, None)]),
    (NODE, None),
    (ALL, [("other", DELETE, None)]),
]
SEEN: Final = [
    "invalid",
    "other",
    RELOGIN,
    KEYSTORE,
    KEY_PASSWORD,
    "listener.name.internal.anything",
    "num.io.threads",
    "ssl.keystore.location",
]


def change(who: str, changes: list[tuple[str, int, str | None]], *, validate_only: bool = False) -> k44.Request:
    """One IncrementalAlterConfigs."""
    configs = [k44.Config(name=name, config_operation=operation, value=value) for name, operation, value in changes]
    resource = k44.Resource(resource_type=BROKER, resource_name=who, configs=configs)
    return k44.Request(resources=[resource], validate_only=validate_only)


def replace(who: str, values: dict[str, str], *, validate_only: bool = False) -> k33.Request:
    """One AlterConfigs."""
    configs = [k33.Config(name=name, value=value) for name, value in values.items()]
    resource = k33.Resource(resource_type=BROKER, resource_name=who, configs=configs)
    return k33.Request(resources=[resource], validate_only=validate_only)


def step(who: str, changes: list[tuple[str, int, str | None]] | None) -> k33.Request | k44.Request:
    """The request of one of `STEPS`."""
    return replace(who, {}) if changes is None else change(who, changes)


def describe(who: str, keys: list[str] | None = None, *, documentation: bool = False) -> k32.Request:
    """DescribeConfigs of one broker, or of all."""
    resource = k32.Resource(resource_type=BROKER, resource_name=who, configuration_keys=keys)
    return k32.Request(resources=[resource], include_synonyms=True, include_documentation=documentation)


def refusal(answer: Any) -> list[Any]:
    """Error code and message of the one resource of an answer."""
    return [answer.responses[0].error_code, answer.responses[0].error_message]


def rows(answer: Any) -> dict[str, list[Any]]:
    """Name -> value, type, source, read_only, is_sensitive, synonyms [name, value, source]; by name."""
    return {
        each.name: [each.value, each.config_type, each.config_source, each.read_only, each.is_sensitive,
                    [[synonym.name, synonym.value, synonym.source] for synonym in each.synonyms]]
        for each in sorted(answer.results[0].configs, key=lambda config: config.name)
    }  # fmt: skip
