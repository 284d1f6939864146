"""The reference of all properties, for users: unit, when it may change, and how it differs from Apache Kafka's.

`docs/configuration.md` and `minibroker config` are generated from it. The broker imports it only to explain an invalid value.
`tests/config/test_reference.py` compares it with the pages that Kafka 4.3.1 prints of its configs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from minibroker.config.definition import DOUBLE, INT, LONG, SHORT, TYPE_NAMES, Property
from minibroker.config.differences import EFFECTS, KAFKA_DEFAULTS, LIKE_KAFKA_DEFAULTS, NO_EFFECT, NOT_KAFKAS
from minibroker.config.group_properties import GROUP_PROPERTIES, GROUP_SYNONYMS
from minibroker.config.security_properties import SECURITY_PROPERTIES
from minibroker.config.topic_properties import SYNONYMS, TOPIC_PROPERTIES

BROKER, TOPIC, GROUP, CLIENT_METRICS = KINDS = ("broker", "topic", "group", "client-metrics")

READ_ONLY: Final = "read-only"  #: only at start
CLUSTER_WIDE: Final = "cluster-wide"  #: while the broker runs, for all brokers or for one
PER_BROKER: Final = "per-broker"  #: while the broker runs, for one broker
_MODES: Final = {TOPIC: "per topic", GROUP: "per group", CLIENT_METRICS: "per subscription"}

#: endings of names -> unit
_BY_ENDING: Final = {
    ".ms": "milliseconds", ".seconds": "seconds", ".minutes": "minutes", ".hours": "hours",
    ".bytes": "bytes", ".buffer.size": "bytes", ".receive.size": "bytes", ".bytes.between.snapshots": "bytes",
    ".bytes.per.second": "bytes a second", ".throttled.rate": "bytes a second",
    ".partitions": "partitions", ".replication.factor": "replicas", ".min.isr": "replicas", ".replicas": "replicas",
    ".threads": "threads", ".threads.per.data.dir": "threads", ".fetchers": "threads",
    ".messages": "records", ".record.locks": "records", ".records.per.snapshot": "records", ".count.limit": "deliveries",
    ".max.size": "members", ".sessions": "sessions", ".cache.slots": "sessions", ".window.num": "samples", ".ratio": "share, 0 to 1",
    ".load.factor": "share, 0 to 1", ".level": "level", ".max.requests": "requests", ".backlog.size": "connections",
    ".connections": "connections", ".connections.per.ip": "connections", ".creation.rate": "connections a second",
    ".size.limit": "partitions", ".id": "id", ".metrics.port": "port",
}  # fmt: skip
_MEASURES: Final = {"milliseconds", "seconds", "minutes", "hours", "bytes", "bytes a second"}
_NUMBERS: Final = (INT, SHORT, LONG, DOUBLE)


class ReferenceEntry(NamedTuple):
    """The description of one property. Texts are in Kafka's form."""

    kind: str  #: of KINDS
    name: str
    type: str
    unit: str  #: empty if it is not a number
    default: str | None  #: the value in force if it is not set; None: no value
    valid_values: str  #: in Kafka's notation; empty if all values of the type are valid
    update_mode: str  #: read-only, cluster-wide, per-broker, ...
    kafka_default: str | None  #: Apache Kafka's, if `is_kafkas`
    is_kafkas: bool  #: whether Apache Kafka documents it
    has_effect: bool
    behind: tuple[str, ...]  #: broker properties that apply if it is not set
    documentation: str
    difference: str  #: how its effect differs from Apache Kafka's; empty if it does not

    @property
    def has_other_default(self) -> bool:
        """Whether Apache Kafka has another default."""
        return self.is_kafkas and self.default != self.kafka_default

    @property
    def is_switched(self) -> bool:
        """Whether `minibroker.like.kafka` gives it Apache Kafka's default."""
        return (self.behind[0] if self.kind == GROUP and self.behind else self.name) in LIKE_KAFKA_DEFAULTS


def entries(kind: str) -> list[ReferenceEntry]:
    """Return the properties of a kind, by name."""
    tables = {
        BROKER: BROKER_PROPERTIES | SECURITY_PROPERTIES,
        TOPIC: TOPIC_PROPERTIES,
        GROUP: GROUP_PROPERTIES,
        CLIENT_METRICS: CLIENT_METRICS_PROPERTIES,
    }
    return [_entry(kind, prop) for _, prop in sorted(tables[kind].items())]


def named(name: str) -> list[ReferenceEntry]:
    """Return all properties of this name. A broker and a topic may have one each."""
    return [entry for kind in KINDS for entry in entries(kind) if entry.name == name]


def unit_of(prop: Property) -> str:
    """Return the unit of a number; empty for other types."""
    if prop.type not in _NUMBERS:
        return ""
    endings = [ending for ending in _BY_ENDING if f".{prop.name}".endswith(ending)]
    return _BY_ENDING[max(endings, key=len)]


def measure_of(prop: Property) -> str:
    """Return the unit of a time or of an amount of data; empty for counts."""
    unit = unit_of(prop)
    return unit if unit in _MEASURES else ""


def _entry(kind: str, prop: Property) -> ReferenceEntry:
    behind: tuple[str, ...] = ()
    default, kafka_default = prop.default, prop.default
    is_kafkas, has_effect, difference = True, prop.name not in NO_EFFECT, ""
    mode = _MODES.get(kind, "")
    if kind == BROKER:
        kafka_default = KAFKA_DEFAULTS.get(prop.name, prop.default)
        is_kafkas = prop.name not in NOT_KAFKAS
        mode = READ_ONLY if not prop.is_dynamic else PER_BROKER if prop.name in SECURITY_PROPERTIES else CLUSTER_WIDE
        difference = EFFECTS.get(prop.name, "")
    elif kind == TOPIC:
        behind = tuple(name for name, _ in SYNONYMS.get(prop.name, ()))
        difference = next((EFFECTS[name] for name in behind if name in EFFECTS), "")
    elif kind == GROUP and prop.name in GROUP_SYNONYMS:
        behind = (GROUP_SYNONYMS[prop.name],)
        default = BROKER_PROPERTIES[behind[0]].default  # the one in force
    elif kind == CLIENT_METRICS:
        has_effect = False
    return ReferenceEntry(
        kind, prop.name, TYPE_NAMES[prop.type].lower(), unit_of(prop), default, prop.valid_values, mode, kafka_default,
        is_kafkas, has_effect, behind, prop.documentation, difference,
    )  # fmt: skip
