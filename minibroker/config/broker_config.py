"""`BrokerConfig`: the properties of a broker as typed attributes, named like Kafka's with `_` for `.`.

Sources, weakest first: defaults (Kafka's with `minibroker.like.kafka`) < file < environment < arguments (these are static), then the
overrides that AlterConfigs stored for all brokers and for this one (dynamic). A dynamic change rewrites the attributes in place, so code
that reads `config.message_max_bytes` at the moment of use sees it. Unknown properties do not fail. They are kept in `unknown`, and a
warning names the nearest known name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from minibroker.config import sources
from minibroker.config.broker_properties import BROKER_PROPERTIES, LIKE_KAFKA, LIMITS_OF_LISTENERS
from minibroker.config.definition import LONG_MAX, Property, Value
from minibroker.config.group_properties import check_groups
from minibroker.config.listeners import Listener, check_listeners, without_controllers
from minibroker.config.topic_properties import HOUR_MS, MINUTE_MS
from minibroker.errors import ConfigurationError, InvalidConfig

_LOG = logging.getLogger(__name__)
#: starts of the names in security_properties.py
_SECURITY_FAMILIES = (
    "ssl.",
    "sasl.",
    "delegation.token.",
    "java.security.auth.",
    "listener.name.",
    "connections.max.reauth.ms",
    "connection.failed.",
    "principal.",
)


class Reconfigurable(Protocol):
    """Something that follows security properties while the broker runs (Kafka's Reconfigurable). It gets `BrokerConfig.security_texts`."""

    def validate(self, texts: Mapping[str, str]) -> None:
        """Raise InvalidConfig if it cannot use the properties, which are not stored yet."""

    def reconfigure(self, texts: Mapping[str, str]) -> None:
        """Use the properties, which are stored."""


class BrokerConfig:
    """All properties; `broker_properties.py` describes them. Times are milliseconds unless the name has another unit."""

    minibroker_like_kafka: bool  #: read when objects are created, never by a request (docs/differences.md)
    node_id: int
    cluster_id: str | None
    broker_rack: str | None
    log_dirs: tuple[str, ...]
    metadata_log_dir: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]  #: empty: like `listeners`
    authorizer_class_name: str
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool
    connections_max_idle_ms: int
    minibroker_request_memory_bytes: int
    minibroker_sender_threads: int
    minibroker_telemetry: bool
    minibroker_telemetry_interval_ms: int
    telemetry_max_bytes: int
    minibroker_metrics_port: int
    minibroker_metrics_host: str
    minibroker_metrics_names: tuple[str, ...]
    queued_max_requests: int
    queued_max_request_bytes: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    request_timeout_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    quota_window_num: int
    quota_window_size_seconds: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    auto_create_topics_enable: bool
    default_replication_factor: int
    delete_topic_enable: bool
    num_partitions: int
    topic_partition_count_map: Mapping[str, int]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_threads: int
    log_cleanup_policy: tuple[str, ...]
    log_flush_interval_messages: int
    log_flush_interval_ms: int  #: LONG_MAX: never
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_initial_task_delay_ms: int
    log_local_retention_bytes: int
    log_local_retention_ms: int
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_type: str
    log_preallocate: bool
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_ms: int  #: of log.retention.ms, .minutes or .hours; -1: never
    log_roll_jitter_ms: int  #: of log.roll.jitter.ms or .hours
    log_roll_ms: int  #: of log.roll.ms or .hours
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    message_max_bytes: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    min_insync_replicas: int
    num_recovery_threads_per_data_dir: int
    replica_high_watermark_checkpoint_interval_ms: int
    unclean_leader_election_enable: bool
    background_threads: int
    num_io_threads: int
    num_network_threads: int
    num_replica_fetchers: int
    follower_replication_throttled_rate: int
    leader_replication_throttled_rate: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_share_assignment_interval_ms: int
    group_share_assignors: tuple[str, ...]
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_delivery_count_limit: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_delivery_count_limit: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_min_session_timeout_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_max_size: int
    group_streams_max_standby_replicas: int
    group_streams_min_assignment_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_num_standby_replicas: int
    group_streams_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        """Read merged static properties, or raise ConfigurationError with one line."""
        static = dict(properties or {})
        #: properties that are not attributes: those of security (security_properties.py), without effect, or unknown
        self.unknown = {name: static.pop(name) for name in list(static) if name not in BROKER_PROPERTIES}
        self.static: dict[str, str] = static  #: texts as the operator wrote them
        self.dynamic_default: dict[str, str] = {}  #: texts stored for all brokers, written by `set_dynamic`
        self.dynamic_broker: dict[str, str] = {}  #: texts stored for this broker
        self.reconfigurables: Mapping[str, Reconfigurable] = {}  #: by listener's name
        self.has_schema_registry = False  #: set by the program that runs one on the broker
        self.defaults: dict[str, str | None] = {}  #: defaults that replace those of the tables
        if static.get(LIKE_KAFKA, "").strip().lower() == "true":
            from minibroker.config.differences import LIKE_KAFKA_DEFAULTS  # noqa: PLC0415  most brokers do not use it

            self.defaults.update(LIKE_KAFKA_DEFAULTS)
        try:
            self._check_security()
            self._apply()
        except InvalidConfig as error:
            raise ConfigurationError(sources.with_origins(f"{error} ({_unit_and_default(str(error))})", static)) from error
        except ConfigurationError as error:
            raise ConfigurationError(sources.with_origins(str(error), static)) from error
        self.static = _with_both_ids(static)

    @classmethod
    def load(
        cls,
        *,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        assignments: Iterable[str] = (),
        arguments: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Merge all sources, of which `arguments` (options such as --port) are the strongest, and warn about unknown names."""
        merged = sources.from_file(file) if file is not None else {}
        merged |= sources.from_environment(environment or {})
        stronger = sources.from_arguments(assignments) | dict(arguments or {})
        config = cls(merged | stronger)
        config.warn_of_unknown({name: variable for name, variable in sources.variables(environment or {}).items() if name not in stronger})
        return config

    def warn_of_unknown(self, variables: Mapping[str, str]) -> None:
        """Log a warning for each unknown property, with the nearest known name, and for those of Kafka that have no effect.

        `variables` maps properties to the environment variables that set them.
        """
        if self.unknown:
            from minibroker.config.kafka_only import warnings_of  # noqa: PLC0415  most configurations do not need it

            for line in warnings_of(self.unknown, variables, self.protocols_of_listeners):
                _LOG.warning("%s", line)

    def set_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> None:
        """Replace the dynamic overrides and rewrite the attributes. Raise InvalidConfig and change nothing if one is invalid."""
        before = self.dynamic_default, self.dynamic_broker
        self.dynamic_default, self.dynamic_broker = dict(dynamic_default), dict(dynamic_broker)
        try:
            self._apply()
        except (InvalidConfig, ConfigurationError) as error:
            self.dynamic_default, self.dynamic_broker = before
            self._apply()
            raise error if isinstance(error, InvalidConfig) else InvalidConfig(str(error)) from error

    def set_stored(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> None:
        """Apply stored overrides at a start. Ignore those that cannot be altered here or are not valid, with a warning."""
        alterable = _alterable(dynamic_default), _alterable(dynamic_broker)
        try:
            self.set_dynamic(*alterable)
        except InvalidConfig:
            self._set_one_by_one(alterable)

    def _set_one_by_one(self, alterable: tuple[Mapping[str, str], Mapping[str, str]]) -> None:
        layers: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for layer, texts in zip(layers, alterable, strict=True):
            for name, text in texts.items():
                layer[name] = text
                try:
                    self.set_dynamic(*layers)
                except InvalidConfig as error:
                    _LOG.warning("the stored broker config %s is ignored: %s", name, error)
                    del layer[name]

    @property
    def protocols_of_listeners(self) -> dict[str, str]:
        """The security protocol of each listener by its lower-case name; an empty one for those of Kafka's controller."""
        controllers = {name.lower(): "" for name in _items(self.value("controller.listener.names"))}
        return controllers | {listener.name.lower(): listener.protocol for listener in self.listeners}

    @property
    def security_texts(self) -> dict[str, str]:
        """The texts in force of properties that are not attributes, such as those of TLS and SASL; for `ListenerProperties`."""
        return {**self.unknown, **self.dynamic_default, **self.dynamic_broker}

    def _check_security(self) -> None:
        if any(name.startswith(_SECURITY_FAMILIES) for name in self.unknown):
            from minibroker.config.security_properties import check_security  # noqa: PLC0415  a plain broker does not need it

            check_security(self.unknown)

    def text(self, name: str) -> str | None:
        """Return the text in force for a property: dynamic, static, or the default."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return self.default(name)

    def default(self, name: str) -> str | None:
        """Return the text in force for a property that no source sets."""
        return self.defaults.get(name, BROKER_PROPERTIES[name].default)

    def value(self, name: str) -> Value:
        """Return the parsed value in force for a property, before units and synonyms are resolved."""
        return BROKER_PROPERTIES[name].parse(self.text(name))

    def _apply(self) -> None:
        values = {name: self.value(name) for name in BROKER_PROPERTIES}
        for name, value in values.items():
            setattr(self, name.replace(".", "_"), value)
        self._apply_identity(values)
        self._apply_times(values)
        self._apply_listeners(values)
        self._apply_authorizer(values)
        check_groups(values)
        self.topic_partition_count_map = _counts(
            "topic.partition.count.map", _items(values["topic.partition.count.map"]), "topic:count", "orders:6,clicks:3"
        )
        overrides = str(values["max.connections.per.ip.overrides"] or "").split(",")
        self.max_connections_per_ip_overrides = _counts(
            "max.connections.per.ip.overrides", [each for each in map(str.strip, overrides) if each], "address:count", "10.0.0.7:100,::1:5"
        )

        self._limits_of_listeners = {
            name: value
            for name, text in self.security_texts.items()
            if name.startswith("listener.name.") and (value := _limit(name, text)) is not None
        }

    def limit_of_listener(self, listener_name: str, name: str) -> int:
        """Return `max.connections` or `max.connection.creation.rate` of one listener: its own, else no limit but that of the broker."""
        return self._limits_of_listeners.get(f"listener.name.{listener_name.lower()}.{name}", 2**31 - 1)

    def _apply_authorizer(self, values: Mapping[str, Value]) -> None:
        users = (each.strip() for each in str(values["super.users"] or "").split(";"))
        self.super_users = tuple(each for each in users if each)
        for user in self.super_users:
            if ":" not in user:
                raise ConfigurationError(f"super.users: {user!r} is not a principal: write User:{user}")
        allows = str(values["allow.everyone.if.no.acl.found"] or "false").lower()
        if allows not in {"true", "false"}:
            raise ConfigurationError(f"allow.everyone.if.no.acl.found: expected true or false, got {allows!r}")
        self.allow_everyone_if_no_acl_found = allows == "true"

    def _apply_identity(self, values: Mapping[str, Value]) -> None:
        node_id, broker_id = (self.static.get(name, "").strip() for name in ("node.id", "broker.id"))
        if node_id and broker_id and node_id != broker_id:
            raise ConfigurationError(f"node.id={node_id} and broker.id={broker_id} differ: give one of them")
        self.node_id = max(_integer(values["node.id" if node_id else "broker.id"]), 0)
        self.log_dirs = _items(values["log.dirs"]) or _items(values["log.dir"])
        if not all(self.log_dirs) or len(set(self.log_dirs)) != len(self.log_dirs):
            raise ConfigurationError(f"log.dirs: {','.join(self.log_dirs)!r} has an empty or a doubled directory")

    def _apply_times(self, values: Mapping[str, Value]) -> None:
        retention = (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS))
        retention_ms = _first(values, retention)
        if retention_ms == 0:
            name = next(each for each, _ in retention if values[each] is not None)
            raise ConfigurationError(f"{name}: 0 is not a time: use -1 to keep everything, or 1 or more")
        self.log_retention_ms = max(retention_ms, -1)
        self.log_roll_ms = _first(values, (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)))
        self.log_roll_jitter_ms = _first(values, (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)))
        self.log_flush_interval_ms = _first(values, (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)))

    def _apply_listeners(self, values: Mapping[str, Value]) -> None:
        pairs = str(values["listener.security.protocol.map"] or "").split(",")
        protocol_map = tuple(each for each in map(str.strip, pairs) if each)
        controllers = _items(values["controller.listener.names"])
        self.listeners = without_controllers("listeners", _items(values["listeners"]), protocol_map, controllers)
        advertised = _items(values["advertised.listeners"])
        self.advertised_listeners = without_controllers("advertised.listeners", advertised, protocol_map, controllers)
        check_listeners(self.listeners, self.advertised_listeners)


def _with_both_ids(static: dict[str, str]) -> dict[str, str]:
    """Set both node.id and broker.id if only one is static, as in Kafka."""
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        text = static.get(name, "").strip()
        if text and not text.startswith("-") and not static.get(other, "").strip():
            return {**static, other: text}
    return static


def _limit(name: str, text: str) -> int | None:
    """Return the value of a connection limit that can be set for one listener; None for other names."""
    for limit in LIMITS_OF_LISTENERS:
        if name.endswith(f".{limit}"):
            prop = BROKER_PROPERTIES[limit]
            value = Property((name, prop.type, None, prop.check, prop.documentation), is_dynamic=True).parse(text)
            return value if isinstance(value, int) else None
    return None


def _alterable(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the stored overrides that may change while the broker runs, or that Kafka stores for plugins."""
    fixed = {name for name in stored if _is_fixed(name)}
    for name in sorted(fixed):
        _LOG.warning("the stored broker config %s is ignored: it cannot be altered while minibroker runs", name)
    return {name: text for name, text in stored.items() if name not in fixed}


def _is_fixed(name: str) -> bool:
    if name in BROKER_PROPERTIES:
        return not BROKER_PROPERTIES[name].is_dynamic
    from minibroker.config import kafka_table  # noqa: PLC0415  only a config without effect needs it

    return kafka_table.is_fixed(name) or name in kafka_table.ONLY_OF_A_LISTENER


def _first(values: Mapping[str, Value], choices: tuple[tuple[str, int], ...]) -> int:
    for name, factor in choices:
        value = values[name]
        if value is not None:
            number = _integer(value) * factor
            return max(-1, number) if number < LONG_MAX else LONG_MAX
    return LONG_MAX


def _integer(value: Value) -> int:
    return value if isinstance(value, int) else -1


def _items(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _counts(name: str, items: Iterable[str], form: str, example: str) -> dict[str, int]:
    """Parse the property `name` as a mapping. The key of an item may contain colons."""
    counts: dict[str, int] = {}
    for item in items:
        key, colon, count = item.rpartition(":")
        if not colon or not key or not (count.isascii() and count.isdigit()) or int(count) < 1:
            raise ConfigurationError(f"{name}: {item!r} is not {form} with a count of 1 or more, e.g. {example}")
        counts[key] = int(count)
    return counts


def _unit_and_default(message: str) -> str:
    """Return unit and default of the property in a message of Kafka's form."""
    name = message.partition(" for configuration ")[2].partition(":")[0]
    if name not in BROKER_PROPERTIES:
        return "default: none"
    from minibroker.config.reference import measure_of  # noqa: PLC0415  only a wrong value needs it

    prop = BROKER_PROPERTIES[name]
    measure = measure_of(prop)
    return f"{f'in {measure}; ' if measure else ''}default: {prop.default or 'none'}"
