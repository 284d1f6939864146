"""The configs of groups: checks of changes, and the values in force, within the broker's limits.

Rules and messages are GroupConfig's of Apache Kafka 4.3.1. A change must be within `group.*.min.*` and `group.*.max.*` and fit the
broker's other values. A value that was stored before those limits changed is brought within them, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.definition import Value
from minibroker.config.group_properties import GROUP_LIMITS, GROUP_PROPERTIES, GROUP_SYNONYMS
from minibroker.errors import InvalidConfig

_LOG = logging.getLogger(__name__)
_KINDS: Final = ("consumer", "share", "streams")
#: checked only if the group overrides it, as in Apache Kafka
_CHECKED_IF_SET: Final = tuple(f"{kind}.assignment.interval.ms" for kind in _KINDS)


class GroupConfig(NamedTuple):
    """All configs of one group, in milliseconds; `config/group_properties.py` describes them."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_assignment_interval_ms: int
    share_session_timeout_ms: int
    share_heartbeat_interval_ms: int
    share_assignment_interval_ms: int
    share_auto_offset_reset: str  #: "earliest", "latest", or "by_duration:" and a duration for `group_properties.duration_ms`
    share_delivery_count_limit: int
    share_isolation_level: str  #: "read_committed" or "read_uncommitted"
    share_partition_max_record_locks: int
    share_record_lock_duration_ms: int
    share_renew_acknowledge_enable: bool
    streams_session_timeout_ms: int
    streams_heartbeat_interval_ms: int
    streams_assignment_interval_ms: int
    streams_initial_rebalance_delay_ms: int
    streams_num_standby_replicas: int


_NAMES: Final = {name.replace(".", "_"): name for name in GROUP_PROPERTIES}


class GroupConfigs:
    """The configs of all groups, computed at first use and cached until `forget`."""

    def __init__(self, config: BrokerConfig, overrides_of: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._overrides_of = overrides_of  #: stored for a group
        self._default: GroupConfig | None = None
        self._own: dict[str, GroupConfig] = {}  #: of groups with overrides

    def of(self, group_id: str) -> GroupConfig:
        """Return the values in force for a group."""
        known = self._own.get(group_id)
        if known is not None:
            return known
        overrides = self._overrides_of(group_id)
        if overrides:
            self._own[group_id] = own = _in_force(self._config, overrides, group_id)
            return own
        if self._default is None:
            self._default = _in_force(self._config, {}, group_id)
        return self._default

    def forget(self, group_id: str | None = None) -> None:
        """Drop the cached values of a group whose configs were altered, or of all groups because the broker's were."""
        if group_id is None:
            self._default = None
            self._own.clear()
        else:
            self._own.pop(group_id, None)

    def check(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the overrides as they are stored, trimmed as ConfigDef does. Raise InvalidConfig for the first invalid one."""
        return _check(self._config, overrides)


def group_value(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """Return one config as DescribeConfigs reports it: the group's override, else the broker's value, regardless of limits."""
    prop = GROUP_PROPERTIES[name]
    if name in overrides:
        return prop.parse(overrides[name])
    return config.value(GROUP_SYNONYMS[name]) if name in GROUP_SYNONYMS else prop.parse(prop.default)


def _check(config: BrokerConfig, configs: Mapping[str, str]) -> dict[str, str]:
    for name in configs:
        if name not in GROUP_PROPERTIES:
            raise InvalidConfig(f"Unknown group config name: {name}")
    values = {name: group_value(config, configs, name) for name in GROUP_PROPERTIES}
    for name, (minimum, maximum) in GROUP_LIMITS.items():
        value = values[name]
        if not isinstance(value, int) or (name in _CHECKED_IF_SET and name not in configs):
            continue
        if minimum is not None and value < _number(config, minimum):
            raise InvalidConfig(f"{name} must be greater than or equal to {minimum}")
        if maximum is not None and value > _number(config, maximum):
            raise InvalidConfig(f"{name} must be less than or equal to {maximum}")
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _as_number(values[session]) <= _as_number(values[heartbeat]):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")
    return {name: text.strip() for name, text in configs.items()}


def _in_force(config: BrokerConfig, overrides: Mapping[str, str], group_id: str) -> GroupConfig:
    values: dict[str, Any] = {}
    for field, name in _NAMES.items():
        value = group_value(config, overrides, name)
        if name in overrides and name in GROUP_LIMITS:
            value = _within(config, name, _as_number(value), group_id)
        values[field] = value
    return GroupConfig(**values)


def _within(config: BrokerConfig, name: str, value: int, group_id: str) -> int:
    minimum, maximum = GROUP_LIMITS[name]
    limited = value
    if minimum is not None:
        limited = max(limited, _number(config, minimum))
    if maximum is not None:
        limited = min(limited, _number(config, maximum))
    if limited != value:
        _LOG.warning("%s=%d of group %s is outside the broker's limits: using %d", name, value, group_id, limited)
    return limited


def _number(config: BrokerConfig, name: str) -> int:
    return _as_number(config.value(name))


def _as_number(value: Value) -> int:
    return value if isinstance(value, int) else 0
