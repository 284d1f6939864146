"""Apache Kafka 4.3.1 as a peer: our values as Kafka's JSON, and the bytes that Kafka's own classes make of them.

`kafka_4_3_1_records.jsonl` holds such bytes for every metadata, control and coordinator record, which no Python library knows, and
`kafka_3_9_1_records.jsonl` what Kafka 3.9.1 made of the versions that Kafka 4 no longer knows. Write them anew with
    python -m tests.schemas.kafka_itself
"""

from __future__ import annotations

import base64
import json
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from minibroker.wire.schema import fields_of
from tests.schemas.declared import Message, messages, our_name
from tests.schemas.kafka_fields import OLD_VERSION
from tests.schemas.values import samples
from tests.support.java import KAFKA_VERSION, kafka_jars

RECORDS = Path(__file__).with_name("kafka_4_3_1_records.jsonl")
OLD_RECORDS = Path(__file__).with_name("kafka_3_9_1_records.jsonl")
PROGRAM = Path(__file__).with_name("KafkaWrites.java")


class Sample(NamedTuple):
    """One message in Kafka's JSON, with Kafka's bytes."""

    message: str
    version: int
    value: dict[str, Any]
    key: int  #: API key or record id, -1 for neither
    data: bytes


def kafka_json(message: Message, version: int, value: Any) -> dict[str, Any]:
    """A value as Kafka's JsonConverters have it, with the field names of Kafka's table."""
    names = {our_path(field.path): field.path.rpartition(".")[2] for field in message.kafka.fields}
    return dict(_members(names, "", version, value))


def our_path(kafka_path: str) -> str:
    """Topics.TopicId is topics.topic_id."""
    return ".".join(our_name(part) for part in kafka_path.split("."))


def _members(names: dict[str, str], path: str, version: int, value: Any) -> Iterator[tuple[str, Any]]:
    for field in fields_of(type(value)):
        if field.in_version(version):
            here = path + field.name
            content = getattr(value, field.name)
            convert = partial(_json, names, here, version)
            is_list = field.is_array and content is not None
            yield names[here][0].lower() + names[here][1:], [convert(each) for each in content] if is_list else convert(content)


def _json(names: dict[str, str], path: str, version: int, content: Any) -> Any:
    if hasattr(content, "declared_"):
        return dict(_members(names, path + ".", version, content))
    if isinstance(content, uuid.UUID):
        return base64.urlsafe_b64encode(content.bytes).decode().rstrip("=")
    if isinstance(content, bytes | memoryview):
        return base64.b64encode(content).decode()
    return content


def write_with_kafka(tasks: Iterable[tuple[Message, int, Any]], kafka_version: str = KAFKA_VERSION) -> list[Sample]:
    """Let Kafka's classes write our values; one JVM for all of them."""
    values = [(message.kafka.name, version, kafka_json(message, version, value)) for message, version, value in tasks]
    lines = "".join(json.dumps({"message": name, "version": version, "value": value}) + "\n" for name, version, value in values)
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{kafka_jars(kafka_version)}/*", str(PROGRAM)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = [line.split(" ") for line in done.stdout.splitlines()]
    return [Sample(*value, int(key), bytes.fromhex(data)) for value, (key, data) in zip(values, answers, strict=True)]


def record_messages() -> list[Message]:
    """Metadata, control and coordinator records."""
    return [message for message in messages().values() if message.kafka.kind not in ("request", "response")]


def old_messages() -> list[Message]:
    """Those with versions that Kafka 4 no longer knows."""
    return [message for message in messages().values() if message.old_versions]


def read_records() -> list[Sample]:
    """The committed bytes."""
    rows = map(json.loads, (RECORDS.read_text() + OLD_RECORDS.read_text()).splitlines())
    return [Sample(message, version, value, key, bytes.fromhex(data)) for message, version, value, key, data in rows]


def write_records() -> None:
    """Write the committed bytes anew."""
    _write(RECORDS, ((each, version) for each in record_messages() for version in each.versions), KAFKA_VERSION)
    _write(OLD_RECORDS, ((each, version) for each in old_messages() for version in each.old_versions), OLD_VERSION)


def _write(file: Path, every: Iterable[tuple[Message, int]], kafka_version: str) -> None:
    tasks = [(each, version, value) for each, version in every for value in samples(each.struct, version, random_ones=2)]
    lines = [json.dumps([*sample[:4], sample.data.hex()], ensure_ascii=False) for sample in write_with_kafka(tasks, kafka_version)]
    file.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    write_records()
