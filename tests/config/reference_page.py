"""docs/configuration.md, written from the tables: `python -m tests.config.reference_page`."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from minibroker.config.definition import TYPE_NAMES, Property
from minibroker.config.group_properties import GROUP_LIMITS, GROUP_PROPERTIES, GROUP_SYNONYMS
from minibroker.config.topic_properties import SYNONYMS, TOPIC_PROPERTIES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"

READ_BY_CONFIG = {"listener.security.protocol.map", "controller.listener.names", "log.dir", "broker.id"}

_HEAD = """# Configuration

Apache Kafka's property names, types and defaults. Values come from, weakest first:

1. the defaults below;
2. a properties file: `minibroker serve --config config/server.properties`;
3. the environment: `KAFKA_NUM_PARTITIONS=3` is `num.partitions=3`; `__` stands for `_`, `___` for `-`;
4. arguments: `minibroker serve --set num.partitions=3`;
5. what AlterConfigs stored, for properties marked *dynamic*: for all brokers, then for this one. It outlives a restart.

A value that is not valid stops the start with one line that says so. A name that nobody knows is warned of, with the nearest that
somebody knows. Names of Kafka's that mean nothing on one node (`process.roles`, `controller.*`, `replica.*`, ...) are passed over.

*No effect yet* marks what is accepted, checked, stored and shown, but what nothing in this version acts on.

"""


def page() -> str:
    """The whole text."""
    lines = [_HEAD + "## Broker properties\n", "| property | type | default | |", "|---|---|---|---|"]
    lines += [_broker_row(BROKER_PROPERTIES[name]) for name in sorted(BROKER_PROPERTIES)]
    lines += ["\n## Topic configs\n", "All are dynamic. Without an override the broker property holds.\n"]
    lines += ["| config | type | default | broker property | |", "|---|---|---|---|---|"]
    lines += [_topic_row(prop) for prop in TOPIC_PROPERTIES.values()]
    lines += [
        "\n## Group configs\n",
        "What a group of KIP-848 (`consumer.*`), a share or a streams group may have for itself (`minibroker configs alter groups GROUP`):",
        "all are dynamic.",
    ]
    lines += [
        "Without one the broker property holds; `group.*.min.*` and `group.*.max.*` are the limits of what groups may have.",
        "Members of classic groups name their time-outs themselves.\n",
    ]
    lines += ["| config | type | default | broker property | |", "|---|---|---|---|---|"]
    lines += [_group_row(prop) for prop in GROUP_PROPERTIES.values()]
    lines += ["\n## Client metrics configs\n", "Kept and told; telemetry is not served, so no client acts on them.\n"]
    lines += ["| config | type | default | |", "|---|---|---|---|"]
    lines += [f"| `{prop.name}` | {_type(prop)} | {_default(prop)} | {prop.documentation} |" for prop in CLIENT_METRICS_PROPERTIES.values()]
    return "\n".join(lines) + "\n"


def _group_row(prop: Property) -> str:
    behind = GROUP_SYNONYMS.get(prop.name)
    note = "" if _is_read(prop.name) else " *No effect yet.*"
    default = _default(BROKER_PROPERTIES[behind] if behind else prop)  # the broker property's is the one in force
    return f"| `{prop.name}` | {_type(prop)} | {default} | {f'`{behind}`' if behind else ''} | {prop.documentation}{note} |"


def _broker_row(prop: Property) -> str:
    notes = [" *Dynamic.*"] if prop.is_dynamic else []
    notes += [] if _broker_has_effect(prop.name) else [" *No effect yet.*"]
    return f"| `{prop.name}` | {_type(prop)} | {_default(prop)} | {prop.documentation}{''.join(notes)} |"


def _topic_row(prop: Property) -> str:
    behind = ", ".join(f"`{name}`" for name, _ in SYNONYMS.get(prop.name, ()))
    note = "" if _topic_has_effect(prop.name) else " *No effect yet.*"
    return f"| `{prop.name}` | {_type(prop)} | {_default(prop)} | {behind} | {prop.documentation}{note} |"


def _broker_has_effect(name: str) -> bool:
    behind = [topic for topic, synonyms in SYNONYMS.items() if name in {synonym for synonym, _ in synonyms}]
    of_groups = [group for group, synonym in GROUP_SYNONYMS.items() if name == synonym or name in GROUP_LIMITS.get(group, ())]
    return name in READ_BY_CONFIG or _is_read(name) or any(_topic_has_effect(topic) for topic in behind) or any(map(_is_read, of_groups))


def _topic_has_effect(name: str) -> bool:
    return _is_read(name)


def _is_read(name: str) -> bool:
    """Whether any module outside the configuration reads the attribute of that name."""
    return re.search(rf"\.{name.replace('.', '_')}\b", _source()) is not None


@functools.cache
def _source() -> str:
    package = ROOT / "minibroker"
    return "\n".join(file.read_text() for file in sorted(package.rglob("*.py")) if file.parent != package / "config")


def _type(prop: Property) -> str:
    return TYPE_NAMES[prop.type].lower()


def _default(prop: Property) -> str:
    return f"`{prop.default}`" if prop.default else ""


if __name__ == "__main__":
    PAGE.write_text(page())
