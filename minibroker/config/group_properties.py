"""All configs of groups in Apache Kafka 4.3.1 (GroupConfig): type, default, valid values, limits.

The value of a group's config is its override, else the broker property of the same name with the prefix `group.` (its synonym), else the
default. The limits (`group.consumer.min.session.timeout.ms`) are checked when a config is altered. Stored values outside them are limited
when they are used.
"""

from __future__ import annotations

import re

from minibroker.config.definition import BOOLEAN, INT, LONG_MAX, STRING, Check, Property, Row, Value, at_least, one_of

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
        (f"{kind}.assignment.interval.ms", INT, "1000", at_least(0), "Least time between two assignments."),
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
    ("share.delivery.count.limit", INT, "5", at_least(2), "How often a record is delivered before it is given up."),
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
