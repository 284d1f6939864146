"""Subscriptions: which clients push which of their metrics, and how often. Source: ClientMetricsManager of Apache Kafka 4.3.1.

Each resource of client metrics is a subscription. A client pushes the metrics of all subscriptions that it matches, at the shortest of
their intervals. Without any resource, clients push all metrics every `minibroker.telemetry.interval.ms`; with Apache Kafka they push none.
The default subscription names the prefix of all metrics, because franz-go does not know that * means all.

A selector is a regular expression in RE2's syntax, and must match the whole attribute. Kafka uses Java's, which can look ahead and refer
back; a subscription with such a selector matches no client.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.config.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from minibroker.config.request_limits import TELEMETRY_MATCHING_STEPS_MAX, TELEMETRY_SUBSCRIPTIONS_MAX
from minibroker.errors import InvalidRegularExpression
from minibroker.records.checksum import crc32c
from minibroker.regular_expression import Regex
from minibroker.telemetry.payload import PREFIX

ALL_METRICS: Final = "*"
_MIN_CAPACITY: Final = 16  #: of a hash set
_LOAD_PERCENT: Final = 75
INTERVAL_MS: Final = 300_000  #: of a client that matches no subscription

_LOG = logging.getLogger(__name__)
_DEFAULTS: Final = {name: prop.parse(prop.default or "") for name, prop in CLIENT_METRICS_PROPERTIES.items()}


class InstanceSubscription(NamedTuple):
    """The subscription of one client instance: the union of all that it matches."""

    subscription_id: int
    metrics: tuple[str, ...]  #: prefixes of names, in Kafka's order
    interval_ms: int


class Subscription(NamedTuple):
    """One resource of client metrics."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: int
    selectors: Mapping[str, Regex] | None  #: attribute -> what matches it; None: no client matches

    def matches(self, attributes: Mapping[str, str], budget: int) -> tuple[bool, int]:
        """Return whether a client with these attributes matches, and what is left of `budget` steps."""
        if self.selectors is None:
            return False, budget
        for name, selector in self.selectors.items():
            text = attributes.get(name)
            if text is None:
                return False, budget
            budget -= selector.steps(text)
            if budget < 0:
                _LOG.warning(
                    "subscription %s of client metrics: matching a client took too many steps, so it does not apply to the client",
                    self.name,
                )
                return False, 0
            if not selector.matches(text):
                return False, budget
        return True, budget


class Subscriptions:
    """The subscriptions of a cluster."""

    def __init__(self, configs: Mapping[str, Mapping[str, str]], default_interval_ms: int) -> None:
        """Read the configs of all resources of client metrics, by name. `default_interval_ms`: 0 asks for nothing without resources."""
        if len(configs) > TELEMETRY_SUBSCRIPTIONS_MAX:
            _LOG.warning(
                "there are %d subscriptions of client metrics; the broker uses only the first %d", len(configs), TELEMETRY_SUBSCRIPTIONS_MAX
            )
        names = _grown_set(list(configs)[:TELEMETRY_SUBSCRIPTIONS_MAX], is_concurrent_map=True)
        self._subscriptions = [_read(name, configs[name]) for name in names]
        if not configs and default_interval_ms:
            self._subscriptions = [Subscription("", (PREFIX,), default_interval_ms, {})]

    def of(self, instance_id: UUID, attributes: Mapping[str, str]) -> InstanceSubscription:
        """Return the subscription of a client instance with these attributes."""
        metrics: list[str] = []
        interval_ms, budget = INTERVAL_MS, TELEMETRY_MATCHING_STEPS_MAX
        for each in self._subscriptions:
            is_match, budget = each.matches(attributes, budget)
            if is_match:
                metrics += each.metrics
                interval_ms = min(interval_ms, each.interval_ms)
        ordered = [ALL_METRICS] if ALL_METRICS in metrics else _grown_set(metrics)
        return InstanceSubscription(_subscription_id(ordered, interval_ms, instance_id), tuple(ordered), interval_ms)


def _read(name: str, configs: Mapping[str, str]) -> Subscription:
    values = _DEFAULTS | {key: CLIENT_METRICS_PROPERTIES[key].parse(text) for key, text in configs.items() if key in _DEFAULTS}
    metrics, interval_ms, match = values["metrics"], values["interval.ms"], values["match"]
    assert isinstance(metrics, tuple)  # noqa: S101  by their type
    assert isinstance(interval_ms, int)  # noqa: S101  likewise
    assert isinstance(match, tuple)  # noqa: S101  likewise
    return Subscription(name, tuple(_copied_set(metrics)), interval_ms, _selectors(name, match))


def _selectors(name: str, patterns: Iterable[str]) -> dict[str, Regex] | None:
    texts = {attribute.strip(): pattern.strip() for attribute, _, pattern in (each.partition("=") for each in patterns)}
    try:
        return {attribute: Regex(pattern) for attribute, pattern in texts.items()}
    except InvalidRegularExpression as error:
        _LOG.warning("subscription %s of client metrics matches no client, because it is invalid: %s", name, error)
        return None


def _subscription_id(metrics: Iterable[str], interval_ms: int, instance_id: UUID) -> int:
    """Return the CRC32C of metrics and interval, as Java writes them, combined with Java's hash code of the instance id."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    folded = (instance_id.int >> 64) ^ (instance_id.int & (1 << 64) - 1)
    number = checksum ^ folded >> 32 ^ folded & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


# The order in which Java's hash sets and maps list strings: subscription ids and lists of metrics depend on it.


def _hash_code(text: str) -> int:
    """Return Java's String.hashCode, as an unsigned number."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code


def _grown_set(texts: Iterable[str], *, is_concurrent_map: bool = False) -> list[str]:
    """Return distinct strings as a HashSet lists them that got them one after the other, or a ConcurrentHashMap of these keys."""
    distinct = list(dict.fromkeys(texts))
    capacity = _MIN_CAPACITY
    while len(distinct) * 100 + is_concurrent_map > capacity * _LOAD_PERCENT:
        capacity *= 2
    return _in_buckets(distinct, capacity)


def _copied_set(texts: Iterable[str]) -> list[str]:
    """Return distinct strings as a HashSet lists them that was made from a list of them."""
    distinct = list(dict.fromkeys(texts))
    capacity = _MIN_CAPACITY
    while capacity < len(distinct) * 100 // _LOAD_PERCENT + 1:
        capacity *= 2
    return _in_buckets(distinct, capacity)


def _in_buckets(texts: list[str], capacity: int) -> list[str]:
    return sorted(texts, key=lambda text: _spread(_hash_code(text)) & (capacity - 1))


def _spread(code: int) -> int:
    return code ^ code >> 16
