"""Every broker config of Apache Kafka 4.3.1: type, default, valid values, update mode and documentation, as Kafka reports them.

DescribeConfigs lists them all, and IncrementalAlterConfigs checks changes of configs that have no effect here. Those of
`broker_properties.py` override them. The rows are in a data file beside this module, which `python -m tests.config.kafka_table` writes
from the answer of a running Kafka. A start does not import this module, unless configs without effect are stored.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.definition import (
    CLASS,
    Check,
    Property,
    Row,
    Value,
    at_least,
    between,
    one_of,
    one_of_any_case,
)

FILE = Path(__file__).with_name("kafka_broker_configs.json")

_PER_BROKER = "per-broker"
_READ_ONLY = "read-only"
_UNKNOWN_TYPE = 0

#: `listener.name.internal.ssl.keystore.location`, `listener.name.internal.plain.sasl.jaas.config`
_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
#: configs whose name for a listener has a mechanism as a prefix
_OF_A_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
#: configs that change while the broker runs only under the name of a listener (SslConfigs.RECONFIGURABLE_CONFIGS)
ONLY_OF_A_LISTENER = frozenset(
    {
        "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
        "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
    }
)  # fmt: skip
#: configs of a listener that may be set for all brokers
_OF_ALL_BROKERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})


class UnknownProperty(Property):
    """A name that neither Kafka nor minibroker knows. Kafka stores it for plugins and does not report its value."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__((name, _UNKNOWN_TYPE, None, None, ""), is_dynamic=False)

    @property
    def is_sensitive(self) -> bool:
        """Always true: an unknown value may be a plugin's password."""
        return True


@cache
def _rows() -> dict[str, tuple[Property, str]]:
    """Return property and update mode of each of Kafka's configs, by name."""
    found = {}
    for name, (kind, default, valid_values, mode, documentation) in json.loads(FILE.read_text(encoding="utf-8")).items():
        check = _no_class(default) if kind == CLASS else _check(valid_values)
        row: Row = (name, kind, default, check, documentation)
        found[name] = Property(row, is_dynamic=mode != _READ_ONLY), mode
    return found


def kafka_names() -> frozenset[str]:
    """Return the names of all configs that Kafka reports of a broker."""
    return frozenset(_rows())


def property_of(name: str) -> Property:
    """Return the property of a config: ours, Kafka's, that of a listener, or an `UnknownProperty`."""
    prop = BROKER_PROPERTIES.get(name) or (_rows()[name][0] if name in _rows() else None)
    if prop is not None:
        return prop
    base = base_name(name)
    if base is None or base not in _rows():
        return UnknownProperty(name)
    of_all = property_of(base)
    return Property((name, of_all.type, None, of_all.check, of_all.documentation), is_dynamic=False)


def is_known(name: str) -> bool:
    """Whether Kafka or minibroker has this config."""
    return name in BROKER_PROPERTIES or name in _rows()


def base_name(name: str) -> str | None:
    """Return the config of all listeners for that of one listener; None for other names."""
    found = _OF_A_LISTENER.fullmatch(name)
    if found is None:
        return None
    rest = found[1]
    return next((each for each in _OF_A_MECHANISM if rest.endswith(each)), rest)


def is_fixed(name: str) -> bool:
    """Whether it is a known config that does not change while the broker runs."""
    return is_known(name) and not property_of(name).is_dynamic


def is_per_broker(name: str) -> bool:
    """Whether it can be set for one broker only, and not for all of them."""
    found = _OF_A_LISTENER.fullmatch(name)
    if found is not None:
        return found[1] not in _OF_ALL_BROKERS
    return name in _rows() and _rows()[name][1] == _PER_BROKER


def check_value(name: str, text: str) -> None:
    """Raise InvalidConfig, with Kafka's message, for an invalid value of a config that can change while the broker runs."""
    found = _OF_A_LISTENER.fullmatch(name)
    prop = property_of(found[1] if found is not None else name)
    if prop.is_dynamic:
        prop.parse(text)


def _no_class(default: str | None) -> Check:
    """Accept only Kafka's default class, because Java classes are not loaded."""

    def check(value: Value) -> str | None:
        return None if value == default else f"Class {value} could not be found."

    return Check("", check)


def _check(words: str) -> Check | None:
    """Return the check that Kafka's words describe: `[1,...]`, `[0,...,3600]`, `[required, requested, none]`."""
    if numbers := re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\]", words):
        return at_least(int(numbers[1])) if numbers[2] is None else between(int(numbers[1]), int(numbers[2]))
    if choices := re.fullmatch(r"(\(case insensitive\) )?\[([^\[\]]+)\]", words):
        return (one_of_any_case if choices[1] else one_of)(*choices[2].split(", "))
    return None
