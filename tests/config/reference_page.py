"""docs/configuration.md, written from the tables: `python -m tests.config.reference_page`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from minibroker.config.differences import ONLY_OURS
from minibroker.config.kafka_only import families
from minibroker.config.reference import BROKER, CLIENT_METRICS, GROUP, TOPIC, ReferenceEntry, entries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"

_HEAD = """# Configuration

Apache Kafka's property names, types and defaults. Values come from, weakest first:

1. the defaults below;
2. a properties file: `minibroker serve --config config/server.properties`;
3. the environment: `KAFKA_NUM_PARTITIONS=3` is `num.partitions=3`; `__` stands for `_`, `___` for `-`;
4. arguments: `minibroker serve --set num.partitions=3`;
5. what AlterConfigs stored, for properties whose mode is *cluster-wide*: for all brokers, then for this one. It outlives a restart.

A value that is not valid stops the start with one line that says so. A name that nobody knows is warned of, with the nearest that
somebody knows. [Names of Kafka's that have no effect here](#properties-of-apache-kafka-without-effect) are passed over, or warned of
where they would change what clients may do.

```sh
minibroker config check server.properties     # what is wrong with a file, before a broker starts with it
minibroker config explain log.retention.ms    # one property: what follows, in the terminal
minibroker config list --different            # what differs from Apache Kafka
```

Three files to begin with:

| file | what it is for |
|---|---|
| [`config/server.properties`](../config/server.properties) | the defaults, with what they mean; the place to change them |
| [`config/test.properties`](../config/test.properties) | tests and CI: small and fast, on a free port of this machine alone |
| [`config/durable.properties`](../config/durable.properties) | what is acknowledged survives the loss of power |

How to read the tables:

- **valid values** are in Kafka's notation: `[1,...]` is 1 and more, `[0,...,1]` from 0 to 1, `[a, b]` one of these.
- **mode** is Kafka's *update mode*: *read-only* only before the broker starts; *cluster-wide* also while the broker runs, for all brokers
  (`minibroker configs alter brokers --default -c NAME=VALUE`) or for one.
- **Kafka's default** is filled in where it is another one. *Not Kafka's* is a property of minibroker's own, *internal* one
  that Kafka reads and does not document.
- **Differs** says how the effect differs from that in Apache Kafka 4.3.1. *No effect* marks what is accepted, checked, stored and
  shown, but what nothing acts on.
- **per-broker** properties are those of TLS and SASL. They may have a listener in front, `listener.name.internal.ssl.client.auth`,
  and some of them a mechanism, `listener.name.internal.plain.sasl.jaas.config`; both in lower case. Only with a listener do they
  change while the broker runs.

"""

_GROUPS = """What a group of KIP-848 (`consumer.*`), a share or a streams group may have for itself:
`minibroker configs alter groups GROUP -c NAME=VALUE`. Without one the broker property holds; `group.*.min.*` and
`group.*.max.*` are the limits of what groups may have.
Members of classic groups name their time-outs themselves.
"""

_KAFKA_ONLY = """A `*` stands for all names that begin so. Those *warned of* get a line in the log where a configuration has them.
"""


def page() -> str:
    """The whole text."""
    broker = [_broker_row(entry) for entry in entries(BROKER)]
    lines = [_HEAD + "## Broker properties\n", *_table("property, type, unit, default, Kafka's default, valid values, mode, ", broker)]
    lines += ["\n## Topic configs\n", "All may change at any time, a topic at a time. Without an override the broker property holds.\n"]
    lines += _table("config, type, unit, default, valid values, broker property, ", [_topic_row(entry) for entry in entries(TOPIC)])
    lines += ["\n## Group configs\n", _GROUPS]
    lines += _table(
        "config, type, unit, default, Kafka's default, valid values, broker property, ", [_group_row(entry) for entry in entries(GROUP)]
    )
    lines += ["\n## Client metrics configs\n", "Each resource of client metrics is a subscription (docs/telemetry.md).\n"]
    metrics = entries(CLIENT_METRICS)
    lines += _table("config, type, unit, default, ", [[*_start(entry), _default(entry), entry.documentation] for entry in metrics])
    lines += ["\n## Properties of Apache Kafka without effect\n", _KAFKA_ONLY, *_table("names, why", list(_families()))]
    return "\n".join(lines) + "\n"


def _table(columns: str, rows: list[list[str]]) -> list[str]:
    names = columns.split(", ")
    return [_line([name.strip() for name in names]), "|" + "---|" * len(names), *map(_line, rows)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _start(entry: ReferenceEntry) -> list[str]:
    return [f"`{entry.name}`", entry.type, entry.unit]


def _broker_row(entry: ReferenceEntry) -> list[str]:
    own = "" if entry.is_kafkas else "*not Kafka's*" if entry.name in ONLY_OURS else "*internal*"
    kafkas = (_code(entry.kafka_default) or "none") if entry.has_other_default else own
    return [*_start(entry), _default(entry), kafkas, _code(entry.valid_values), entry.update_mode, _words(entry)]


def _topic_row(entry: ReferenceEntry) -> list[str]:
    return [*_start(entry), _default(entry), _code(entry.valid_values), _behind(entry), _words(entry)]


def _group_row(entry: ReferenceEntry) -> list[str]:
    kafkas = _code(entry.kafka_default) if entry.has_other_default else ""
    return [*_start(entry), _default(entry), kafkas, _code(entry.valid_values), _behind(entry), _words(entry)]


def _families() -> Iterator[list[str]]:
    for why, names in families().items():
        yield [", ".join(map(_code, names)), f"{why.reason[0].upper()}{why.reason[1:]}.{' *Warned of.*' if why.is_warned_of else ''}"]


def _words(entry: ReferenceEntry) -> str:
    differs = f" **Differs:** {entry.difference}" if entry.difference else ""
    return f"{entry.documentation}{differs}{'' if entry.has_effect else ' *No effect.*'}"


def _behind(entry: ReferenceEntry) -> str:
    return ", ".join(map(_code, entry.behind))


def _default(entry: ReferenceEntry) -> str:
    return _code(entry.default)


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def is_read(name: str) -> bool:
    """Whether any module outside the configuration reads the attribute of that name."""
    return name.replace(".", "_") in _attributes()


@functools.cache
def _attributes() -> frozenset[str]:
    package = ROOT / "minibroker"
    files = [file for file in package.rglob("*.py") if file.parent != package / "config"]
    return frozenset(name for file in files for name in re.findall(r"[.\"](\w+)", file.read_text()))


if __name__ == "__main__":
    PAGE.write_text(page())
