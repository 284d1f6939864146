"""Topics that a container creates: those of KAFKA_CREATE_TOPICS, and one for each file in a folder of seed data.

    KAFKA_CREATE_TOPICS=orders:3:1,users:1:1:compact      name[:partitions[:replicas[:cleanup.policy]]], separated by commas or blanks

    orders.txt      a record per line, whose value is the line
    users.jsonl     a JSON object per line, like the output of `minibroker consume -o jsonl`: value, key, headers, partition,
                    timestamp. Defaults: null, null, none, by key, now.

A topic of a seed file that is not in KAFKA_CREATE_TOPICS has the broker's default number of partitions, or as many as the
file needs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minibroker.cli.records import from_json, json_of
from minibroker.errors import ConfigurationError
from minibroker.records.record import Record

VARIABLE = "KAFKA_CREATE_TOPICS"
SEED_FORMS = (".txt", ".jsonl")
BROKER_DEFAULT = -1
_FORM = re.compile(r"([a-zA-Z0-9._-]+)(?::(\d+))?(?::(\d+))?(?::([a-z+]+))?")
_POLICIES = {"compact": "compact", "delete": "delete", "compact+delete": "compact,delete", "delete+compact": "compact,delete"}


class NewTopic(NamedTuple):
    """A topic to create if it does not exist; `seed` is the file of its first records."""

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    cleanup_policy: str | None = None
    seed: Path | None = None


def parse_topics(text: str) -> dict[str, NewTopic]:
    """Return the topics of KAFKA_CREATE_TOPICS by name; ConfigurationError for an invalid one."""
    found: dict[str, NewTopic] = {}
    for item in filter(None, re.split(r"[,\s]+", text)):
        match = _FORM.fullmatch(item)
        if match is None or (match[4] and match[4] not in _POLICIES) or match[2] == "0" or match[3] == "0":
            raise ConfigurationError(
                f"{VARIABLE}: {item!r} is not name:partitions:replicas[:compact|delete|compact+delete], e.g. orders:3:1"
            )
        if match[1] in found:
            raise ConfigurationError(f"{VARIABLE}: {match[1]} is listed twice")
        found[match[1]] = NewTopic(
            match[1], int(match[2] or BROKER_DEFAULT), int(match[3] or BROKER_DEFAULT), _POLICIES[match[4]] if match[4] else None
        )
    return found


def with_seeds(topics: dict[str, NewTopic], folder: Path) -> list[NewTopic]:
    """Return these topics and those of the folder's files, if it exists; ConfigurationError for an invalid file."""
    found = dict(topics)
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.name.startswith(".") or not file.is_file():
            continue
        if file.suffix not in SEED_FORMS:
            raise ConfigurationError(f"seed data {file}: name it TOPIC{' or TOPIC'.join(SEED_FORMS)}")
        topic = found.get(file.stem, NewTopic(file.stem))
        if topic.seed is not None:
            raise ConfigurationError(f"seed data {file}: {topic.seed.name} is for the same topic")
        found[file.stem] = topic._replace(seed=file)
    return list(found.values())


def seed_records(file: Path) -> Iterator[tuple[Record, int | None]]:
    """Yield the records of a seed file and the partitions that they name; ConfigurationError with the line number."""
    now_ms = time.time_ns() // 1_000_000
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            text = line.rstrip(b"\r\n")
            if file.suffix == ".txt":
                yield Record(0, now_ms, None, text, ()), None
            elif text.strip():
                try:
                    yield from_json(json_of(text), now_ms)
                except ValueError as error:
                    raise ConfigurationError(f"seed data {file}, line {number}: {error}") from error


def partitions_named(file: Path) -> int:
    """Return the number of partitions that a seed file needs; 0 if it names none."""
    if file.suffix == ".txt":
        return 0
    return max((partition + 1 for _, partition in seed_records(file) if partition is not None), default=0)
