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

Properties have Apache Kafka's names and types, and with marked exceptions its defaults. Values come
from these sources. Later sources override earlier ones:

1. the defaults below;
2. a properties file: `minibroker serve --config config/server.properties`;
3. the environment: `KAFKA_NUM_PARTITIONS=3` sets `num.partitions=3`; in names of variables, `_`
   stands for `.`, `__` for `_`, and `___` for `-`;
4. options: `minibroker serve --set num.partitions=3`;
5. for properties whose mode is *cluster-wide*, the values that AlterConfigs stored: those of all
   brokers, which those of this broker override. They survive a restart.

If a value is invalid, the broker does not start, and prints one line with the reason. If a name is
unknown, it logs a warning with the nearest known name. It ignores [properties of Apache Kafka that
have no effect here](#properties-of-apache-kafka-without-effect), with a warning if they would change
what clients may do.

```sh
minibroker config check server.properties     # finds mistakes in a file before a broker starts with it
minibroker config explain log.retention.ms    # describes one property
minibroker config list --different            # lists differences from Apache Kafka
```

Three files are starting points:

| file | purpose |
|---|---|
| [`config/server.properties`](../config/server.properties) | the defaults, with explanations |
| [`config/test.properties`](../config/test.properties) | tests and CI: small and fast, on a free port of the loopback interface |
| [`config/durable.properties`](../config/durable.properties) | acknowledged records survive a loss of power |

## Listeners, durability and retention

Several listeners serve clients on the host and in containers:

```properties
listeners=HOST://:9092,DOCKER://:19092
advertised.listeners=HOST://localhost:9092,DOCKER://broker:19092
listener.security.protocol.map=HOST:PLAINTEXT,DOCKER:PLAINTEXT
```

**Durability** is as in Kafka: an acknowledged record is in the page cache, and survives a crash of
the process. With `log.flush.interval.messages=1`, the broker syncs it to disk before the
acknowledgement. Requests that arrive together share one fsync.

**Retention and compaction** are as in Kafka: `retention.ms`, `retention.bytes` and
`cleanup.policy=compact` for a topic, or `log.*` for all topics. A change takes effect immediately,
while Kafka waits for `log.retention.check.interval.ms`. Timestamps decide how old a record is. The
broker deletes records with old timestamps within minutes, unless the topic has `retention.ms=-1`.
These commands empty a topic:

```sh
minibroker topics alter orders --config retention.ms=1
minibroker topics alter orders --delete-config retention.ms
```

## How to read the tables

- **valid values** are in Kafka's notation: `[1,...]` means 1 or more, `[0,...,1]` means 0 to 1, and
  `[a, b]` means a or b.
- **mode** is Kafka's *update mode*: when you can change the property. *read-only*: only before the
  broker starts. *cluster-wide*: also while the broker runs, for all brokers
  (`minibroker configs alter brokers --default -c NAME=VALUE`) or for one.
- **Kafka's default** is empty if it is the same. *Not Kafka's* marks properties that only
  minibroker has. *Internal* marks properties that Kafka reads but does not document.
- **Differs** says how the effect differs from Apache Kafka 4.3.1. *No effect* marks properties that
  the broker accepts, checks, stores and shows, but does not use.
- **per-broker** is the mode of properties of TLS and SASL. They can have the prefix of a listener
  (`listener.name.internal.ssl.client.auth`), and some of them also the prefix of a mechanism
  (`listener.name.internal.plain.sasl.jaas.config`). Both are in lower case. You can change them
  while the broker runs only with the prefix of a listener.

"""

_GROUPS = """Configs of groups of KIP-848 (`consumer.*`), share groups and streams groups:
`minibroker configs alter groups GROUP -c NAME=VALUE`. If a group does not have the config, the
broker property applies. `group.*.min.*` and `group.*.max.*` limit the configs of groups. Members of
classic groups send their own timeouts.
"""

_KAFKA_ONLY = """`*` is a wildcard. If a configuration has a property marked *warned of*, the broker logs a warning.
"""


def page() -> str:
    """The whole text."""
    broker = [_broker_row(entry) for entry in entries(BROKER)]
    lines = [_HEAD + "## Broker properties\n", *_table("property, type, unit, default, Kafka's default, valid values, mode, ", broker)]
    lines += ["\n## Topic configs\n", "You can change them at any time. If a topic has no override, the broker property applies.\n"]
    lines += _table("config, type, unit, default, valid values, broker property, ", [_topic_row(entry) for entry in entries(TOPIC)])
    lines += ["\n## Group configs\n", _GROUPS]
    lines += _table(
        "config, type, unit, default, Kafka's default, valid values, broker property, ", [_group_row(entry) for entry in entries(GROUP)]
    )
    lines += ["\n## Client metrics configs\n", "Each resource of client metrics is a subscription ([Client telemetry](telemetry.md)).\n"]
    metrics = entries(CLIENT_METRICS)
    lines += _table("config, type, unit, default, ", [[*_start(entry), _default(entry), entry.documentation] for entry in metrics])
    lines += ["\n## Properties of Apache Kafka without effect\n", _KAFKA_ONLY, *_table("names, why", list(_families()))]
    return "\n".join(lines) + "\n"


def _table(columns: str, rows: list[list[str]]) -> list[str]:
    """Return a table with what a config does, the last column of each row, beside its name."""
    names = [name.strip() or "effect" for name in columns.split(", ")]
    head, *body = ([first, last, *middle] for first, *middle, last in [names, *rows])
    return [_line(head), "|" + "---|" * len(head), *map(_line, body)]


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
