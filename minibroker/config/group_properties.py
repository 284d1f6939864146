"""Configs of groups, and the broker properties of the newer kinds: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071).

    consumer.session.timeout.ms              a config of a group: its override
    group.consumer.session.timeout.ms        its synonym, a broker property: the value of groups without an override
    group.consumer.min.session.timeout.ms    limits of the override
    group.consumer.max.session.timeout.ms

A config without a synonym has its own default. The limits are checked when a config is altered. Stored values outside them are limited
when they are used.

Names, types, defaults and limits are those of Apache Kafka 4.3.1 (GroupConfig, GroupCoordinatorConfig, ShareGroupConfig), except some times
of broker properties, which only delay small groups: assignments are computed immediately, heartbeats are a second apart, and streams groups
start without delay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from minibroker.config.definition import (
    BOOLEAN,
    INT,
    LIST,
    LONG_MAX,
    STRING,
    Check,
    Property,
    Row,
    Value,
    at_least,
    between,
    one_of,
    one_of_any_case,
)
from minibroker.errors import ConfigurationError

_DURATION = (
    r"by_duration:[+]?P(?=.)(?:[+]?(?P<d>\d+)D)?(?:T(?=.)(?:[+]?(?P<h>\d+)H)?(?:[+]?(?P<m>\d+)M)?(?:[+]?(?P<s>\d+(?:[.,]\d{0,9})?)S)?)?"
)
BY_DURATION = "by_duration:"
_LONG_DIGITS = len(str(LONG_MAX))


def duration_ms(text: str) -> int | None:
    """Parse `by_duration:` and a java.time.Duration, for example by_duration:P1DT2H3M4.5S. Return None for other texts."""
    found = re.fullmatch(_DURATION, text, re.ASCII | re.IGNORECASE) if text.startswith(BY_DURATION) else None
    if found is None:
        return None
    whole, _, fraction = (found["s"] or "0").replace(",", ".").partition(".")
    numbers = [(found[part] or "0").lstrip("0") for part in "dhm"] + [whole.lstrip("0")]
    if any(len(each) > _LONG_DIGITS for each in numbers):
        return None
    days, hours, minutes, seconds = (int(each or "0") for each in numbers)
    seconds += ((days * 24 + hours) * 60 + minutes) * 60
    return seconds * 1000 + int(fraction.ljust(3, "0")[:3]) if seconds <= LONG_MAX else None


def _offset_reset(value: Value) -> str | None:
    if value in {"earliest", "latest"} or (isinstance(value, str) and duration_ms(value) is not None):
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. "
        "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _times(kind: str) -> tuple[Row, ...]:
    return (
        (f"{kind}.session.timeout.ms", INT, "45000", at_least(1), "Time without a heartbeat after which a member is removed."),
        (f"{kind}.heartbeat.interval.ms", INT, "5000", at_least(1), "How often members send a heartbeat."),
        (f"{kind}.assignment.interval.ms", INT, "1000", at_least(0), "Minimum time between two assignments."),
    )


_ROWS: tuple[Row, ...] = (
    *_times("consumer"),
    *_times("share"),
    (
        "share.auto.offset.reset",
        STRING,
        "latest",
        Check("[latest, earliest, by_duration:PnDTnHnMn.nS]", _offset_reset),
        "Where a share group starts in a partition: earliest, latest, or a duration ago, for example by_duration:PT1H.",
    ),
    ("share.delivery.count.limit", INT, "5", at_least(2), "Maximum number of deliveries of a record. After that, it is archived."),
    (
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        "Whether records of aborted transactions are delivered.",
    ),
    ("share.partition.max.record.locks", INT, "2000", at_least(100), "Records of a partition that members may hold at one time."),
    ("share.record.lock.duration.ms", INT, "30000", at_least(1000), "How long a member may hold a record before it is delivered again."),
    ("share.renew.acknowledge.enable", BOOLEAN, "true", None, "Whether members may renew the lock."),
    *_times("streams"),
    ("streams.initial.rebalance.delay.ms", INT, "3000", at_least(0), "How long a new group waits for more members."),
    ("streams.num.standby.replicas", INT, "0", at_least(0), "Standby replicas of each task."),
)

GROUP_PROPERTIES: dict[str, Property] = {row[0]: Property(row, is_dynamic=True) for row in _ROWS}

_WITHOUT_SYNONYM = ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")

#: config of a group -> its synonym, a broker property
GROUP_SYNONYMS: dict[str, str] = {name: f"group.{name}" for name in GROUP_PROPERTIES if name not in _WITHOUT_SYNONYM}


def _limits(name: str) -> tuple[str | None, str | None]:
    kind, _, rest = name.partition(".")
    if name == "streams.num.standby.replicas":
        return None, "group.streams.max.standby.replicas"
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


#: config of a group -> broker properties with its minimum and maximum
GROUP_LIMITS: dict[str, tuple[str | None, str | None]] = {
    name: _limits(name) for name in GROUP_SYNONYMS if name != "streams.initial.rebalance.delay.ms"
}


_PROTOCOLS = "group.coordinator.rebalance.protocols"
_KINDS = ("consumer", "share", "streams")
_INTERVALS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_SHARE_LIMITED = ("delivery.count.limit", "record.lock.duration.ms", "partition.max.record.locks")


def _limited(
    kind: str, name: str, values: tuple[int, int, int], checks: tuple[Check, Check, Check], documentation: str
) -> tuple[Row, Row, Row]:
    """Return the rows of a value and of its minimum and maximum in groups."""
    value, minimum, maximum = (str(each) for each in values)
    own = f"{kind}.{name}"
    return (
        (f"group.{kind}.{name}", INT, value, checks[0], f"{documentation} For groups that do not set {own}."),
        (f"group.{kind}.min.{name}", INT, minimum, checks[1], f"Minimum of a group's {own}."),
        (f"group.{kind}.max.{name}", INT, maximum, checks[2], f"Maximum of a group's {own}."),
    )


def _same(check: Check) -> tuple[Check, Check, Check]:
    return check, check, check


def _of_kind(kind: str) -> tuple[Row, ...]:
    sessions = f"Time without a heartbeat after which a member of a {kind} group is removed."
    heartbeats = f"How often members of a {kind} group send a heartbeat. The response contains changes of their assignment."
    return (
        *_limited(kind, "session.timeout.ms", (45_000, 45_000, 60_000), _same(at_least(1)), sessions),
        *_limited(kind, "heartbeat.interval.ms", (1_000, 1_000, 15_000), _same(at_least(1)), heartbeats),
    )


def _assignment(kind: str) -> tuple[Row, Row, Row]:
    words = f"Minimum time between two assignments of a {kind} group."
    return _limited(kind, "assignment.interval.ms", (0, 0, 15_000), _same(at_least(0)), words)


_CONSUMER: tuple[Row, ...] = (
    *_of_kind("consumer"),
    *_assignment("consumer")[1:],
    ("group.consumer.max.size", INT, "5000", at_least(1), "Maximum number of members of a consumer group."),
    (
        "group.consumer.assignors",
        LIST,
        "uniform,range",
        one_of("uniform", "range"),
        "Assignors that members may name; the first is for members that name none.",
    ),
    (
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        "Whether a group with members may change its protocol: upgrade is from classic to consumer.",
    ),
)

_SHARE: tuple[Row, ...] = (
    *_of_kind("share"),
    *_assignment("share")[1:],
    ("group.share.max.size", INT, "200", between(1, 1_000), "Maximum number of members of a share group."),
    ("group.share.assignors", LIST, "simple", one_of("simple"), "The assignor of share groups; there is one."),
    ("group.share.max.share.sessions", INT, "2000", at_least(1), "Maximum number of share sessions."),
    *_limited(
        "share",
        "delivery.count.limit",
        (5, 2, 10),
        (between(2, 10), between(2, 5), between(5, 25)),
        "Maximum number of deliveries of a record. After that, it is archived.",
    ),
    *_limited(
        "share",
        "record.lock.duration.ms",
        (30_000, 15_000, 60_000),
        (between(1_000, 3_600_000), between(1_000, 30_000), between(30_000, 3_600_000)),
        "How long a member may hold a record before it is delivered again.",
    ),
    *_limited(
        "share",
        "partition.max.record.locks",
        (2_000, 100, 4_000),
        (between(100, 10_000), between(100, 2_000), between(2_000, 10_000)),
        "Records of a partition that members may hold at one time.",
    ),
)

_STREAMS: tuple[Row, ...] = (
    *_of_kind("streams"),
    *_assignment("streams")[1:],
    ("group.streams.max.size", INT, "5000", at_least(1), "Maximum number of members of a streams group."),
    ("group.streams.num.standby.replicas", INT, "0", at_least(0), "Standby replicas of each task of a streams group."),
    ("group.streams.max.standby.replicas", INT, "2", at_least(0), "Maximum of a group's streams.num.standby.replicas."),
    (
        "group.streams.initial.rebalance.delay.ms",
        INT,
        "0",
        at_least(0),
        "How long a new streams group waits for more members.",
    ),
)

STATIC_ROWS: tuple[Row, ...] = (
    (
        _PROTOCOLS,
        LIST,
        "classic,consumer,streams",
        one_of("consumer", "classic", "share", "streams"),
        "Protocols of groups that are served. Share groups are served according to the feature share.version.",
    ),
    *_CONSUMER,
    *_SHARE,
    *_STREAMS,
)
DYNAMIC_ROWS: tuple[Row, ...] = tuple(_assignment(kind)[0] for kind in _KINDS)


def check_groups(values: Mapping[str, Value]) -> None:
    """Check properties that depend on each other. Raise ConfigurationError with Kafka's message."""
    for kind in _KINDS:
        for name in (*_INTERVALS, *(_SHARE_LIMITED if kind == "share" else ())):
            value, minimum, maximum = (f"group.{kind}.{limit}{name}" for limit in ("", "min.", "max."))
            _not_below(values, maximum, minimum)
            _not_below(values, value, minimum)
            _not_above(values, value, maximum)
        session, heartbeat = (f"group.{kind}.{name}" for name in _INTERVALS[:2])
        if _number(values, heartbeat) >= _number(values, session):
            _refuse(f"{heartbeat} must be less than {session}")
    for name in ("group.consumer.assignors", _PROTOCOLS):
        _check_items(name, _items(values, name))
    if "classic" not in _items(values, _PROTOCOLS):
        _refuse("Disabling the 'classic' protocol is not supported.")
    if len(_items(values, "group.share.assignors")) != 1:
        _refuse("group.share.assignors must contain exactly one assignor")
    _not_below(values, "group.share.max.share.sessions", "group.share.max.size")
    _not_above(values, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas")


def _not_below(values: Mapping[str, Value], name: str, limit: str) -> None:
    if _number(values, name) < _number(values, limit):
        _refuse(f"{name} must be greater than or equal to {limit}")


def _not_above(values: Mapping[str, Value], name: str, limit: str) -> None:
    if _number(values, name) > _number(values, limit):
        _refuse(f"{name} must be less than or equal to {limit}")


def _check_items(name: str, items: tuple[str, ...]) -> None:
    if not items:
        _refuse(f"Configuration '{name}' must not be empty.")
    if len(set(items)) < len(items):
        _refuse(f"Configuration '{name}' values must not be duplicated.")


def _refuse(problem: str) -> NoReturn:
    raise ConfigurationError(problem)


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    return value if isinstance(value, int) else 0


def _items(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    return value if isinstance(value, tuple) else ()
