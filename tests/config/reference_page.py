"""docs/configuration.md, written from the tables: `python -m tests.config.reference_page`."""

from __future__ import annotations

from pathlib import Path

from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.definition import TYPE_NAMES, Property
from minibroker.config.topic_properties import SYNONYMS, TOPIC_PROPERTIES

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

_HEAD = """# Configuration

Apache Kafka's property names, types and defaults. Values come from, weakest first:

1. the defaults below;
2. a properties file: `minibroker serve --config config/server.properties`;
3. the environment: `KAFKA_NUM_PARTITIONS=3` is `num.partitions=3`; `__` stands for `_`, `___` for `-`;
4. arguments: `minibroker serve --set num.partitions=3`;
5. what AlterConfigs stored, for properties marked *dynamic*: for all brokers, then for this one. It outlives a restart.

A value that is not valid stops the start with one line that says so. A name that nobody knows is warned of, with the nearest that
somebody knows. Names of Kafka's that mean nothing on one node (`process.roles`, `controller.*`, `replica.*`, ...) are passed over.

"""


def page() -> str:
    """The whole text."""
    lines = [_HEAD + "## Broker properties\n", "| property | type | default | |", "|---|---|---|---|"]
    lines += [_broker_row(BROKER_PROPERTIES[name]) for name in sorted(BROKER_PROPERTIES)]
    lines += ["\n## Topic configs\n", "All are dynamic. Without an override the broker property holds.\n"]
    lines += ["| config | type | default | broker property | |", "|---|---|---|---|---|"]
    lines += [_topic_row(prop) for prop in TOPIC_PROPERTIES.values()]
    return "\n".join(lines) + "\n"


def _broker_row(prop: Property) -> str:
    dynamic = " *Dynamic.*" if prop.is_dynamic else ""
    return f"| `{prop.name}` | {_type(prop)} | {_default(prop)} | {prop.documentation}{dynamic} |"


def _topic_row(prop: Property) -> str:
    behind = ", ".join(f"`{name}`" for name, _ in SYNONYMS.get(prop.name, ()))
    return f"| `{prop.name}` | {_type(prop)} | {_default(prop)} | {behind} | {prop.documentation} |"


def _type(prop: Property) -> str:
    return TYPE_NAMES[prop.type].lower()


def _default(prop: Property) -> str:
    return f"`{prop.default}`" if prop.default else ""


if __name__ == "__main__":
    PAGE.write_text(page())
