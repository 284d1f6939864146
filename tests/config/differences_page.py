"""docs/differences.md, written from minibroker/config/differences.py: `python -m tests.config.differences_page`."""

from __future__ import annotations

from pathlib import Path

from minibroker.config.difference import AREAS, PARTLY, Difference
from minibroker.config.differences import DIFFERENCES, LIKE_KAFKA_DEFAULTS
from minibroker.config.reference import BROKER, entries

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"

_HEAD = """# Differences from Apache Kafka

minibroker behaves as Apache Kafka 4.3.1 does, with a few deliberate exceptions, mostly so that
tests need not wait. This page lists every deliberate difference with its reason. Any other
difference is a defect. What is not served at all is in [NOT_DONE.md](../NOT_DONE.md).

## Turning them off

Test an application also against the behavior that it meets in production. One property makes the
broker behave as Apache Kafka does:

| where | how |
|---|---|
| `minibroker serve` | `--like-kafka`, or `minibroker.like.kafka=true` in the properties file or with `--set` |
| the container image | `-e KAFKA_MINIBROKER_LIKE_KAFKA=true` |
| pytest plugin | `pytest --minibroker-like-kafka`, `minibroker_like_kafka = true` in the ini file, or `minibroker_options` |
| `Broker`, `BrokerThread`, `BrokerProcess` | `like_kafka=True` |

Properties that you set keep their values: `--like-kafka --set group.initial.rebalance.delay.ms=0`
does not wait for members. The broker decides when it starts which handlers and defaults it uses, so
the property costs nothing if you do not set it.

```sh
minibroker config explain group.initial.rebalance.delay.ms    # names both defaults
minibroker config list --different                            # every property that differs
```
"""

_DEFAULTS = """
## Defaults that the property changes

| property | minibroker | Apache Kafka, and with `minibroker.like.kafka` |
|---|---|---|
"""


_CLIENTS = """
## Defects of clients that show here more often

| client | what happens | why it shows here |
|---|---|---|
| librdkafka 2.15, `group.protocol=consumer`, with a rebalance callback | An application that calls `unsubscribe` while a rebalance waits for its callback, and subscribes again, may receive no more records, or the fatal error INVALID_REQUEST. The client leaves the group in the state *steady*, then joins again by a heartbeat with epoch 0 and without a rebalance timeout. | minibroker computes assignments immediately, so a rebalance is nearly always under way. Responses arrive within a millisecond, before the client has finished its own step. Apache Kafka with `group.consumer.assignment.interval.ms=0` shows the same, but rarely with its default of 1000. With `minibroker.like.kafka`, it still happens more often than with Apache Kafka, because responses are not slowed down. |
"""  # noqa: E501  a row of a table


def page() -> str:
    """Return the whole text."""
    text = _HEAD
    for area in AREAS:
        text += f"\n## {area}\n\n| | Apache Kafka | minibroker | why | with `minibroker.like.kafka` |\n|---|---|---|---|---|\n"
        text += "".join(_row(each) for each in DIFFERENCES if each.area == area)
    defaults = {entry.name: entry.default for entry in entries(BROKER)}
    rows = (f"| `{name}` | `{defaults[name]}` | `{kafkas}` |\n" for name, kafkas in sorted(LIKE_KAFKA_DEFAULTS.items()))
    return text + _DEFAULTS + "".join(rows) + _CLIENTS


def _row(difference: Difference) -> str:
    remains = difference.remains
    switch = (
        "as Apache Kafka" if not remains else f"{'as Apache Kafka in part' if remains.startswith(PARTLY) else 'stays'}: {_plain(remains)}"
    )
    cells = [f"`{difference.name}`", difference.kafka, difference.here, difference.reason, switch]
    return f"| {' | '.join(cells)} |\n"


def _plain(remains: str) -> str:
    text = remains.removeprefix(PARTLY)
    return text[0].lower() + text[1:] if not text.startswith(("CREATE", "SASL", "Kafka", "MISSING")) else text


if __name__ == "__main__":
    PAGE.write_text(page())
