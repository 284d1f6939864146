"""KAFKA_CREATE_TOPICS and seed data: what they mean, what is made of them, and what after a container died over it."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from minibroker.cli.container.new_schemas import register_schemas
from minibroker.cli.container.new_topics import BROKER_DEFAULT, NewTopic, parse_topics, with_seeds
from minibroker.cli.container.preparing import UNFINISHED, prepare
from minibroker.errors import ConfigurationError
from minibroker.testing import BrokerThread


def test_forms_of_topics() -> None:
    text = "orders:3:1,users:1:1:compact\n  clicks:2 , logs, both:1:1:compact+delete"
    assert list(parse_topics(text).values()) == [
        NewTopic("orders", 3, 1),
        NewTopic("users", 1, 1, "compact"),
        NewTopic("clicks", 2, BROKER_DEFAULT),
        NewTopic("logs"),
        NewTopic("both", 1, 1, "compact,delete"),
    ]
    assert parse_topics("") == {}


@pytest.mark.parametrize("text", ["orders:x", "orders:0:1", "orders:1:1:keep", "or ders/", "a:1:1:compact:more", ":1:1"])
def test_invalid_topic_specification_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^KAFKA_CREATE_TOPICS: .* is not name:partitions:replicas"):
        parse_topics(text)


def test_duplicate_topic_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="orders is listed twice"):
        parse_topics("orders:1:1,orders:2:1")


def test_files_are_seeds_of_topics(tmp_path: Path) -> None:
    for name in ("orders.jsonl", "words.txt", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert with_seeds(parse_topics("orders:3:1"), tmp_path) == [
        NewTopic("orders", 3, 1, seed=tmp_path / "orders.jsonl"),
        NewTopic("words", seed=tmp_path / "words.txt"),
    ]
    assert with_seeds({}, tmp_path / "not there") == []
    (tmp_path / "orders.txt").touch()
    with pytest.raises(ConfigurationError, match=r"orders.txt: orders.jsonl is for the same topic"):
        with_seeds({}, tmp_path)
    (tmp_path / "orders.txt").rename(tmp_path / "orders.csv")
    with pytest.raises(ConfigurationError, match=r"orders.csv: name it TOPIC.txt or TOPIC.jsonl"):
        with_seeds({}, tmp_path)


def records(data: Path, topic: str) -> list[tuple[int, bytes | None, str | None]]:
    with BrokerThread(data_dir=data) as broker:
        found = [(record.partition, record.key, record.text) for record in broker.records(topic)]
    return sorted(found, key=str)


def test_they_are_made_once(tmp_path: Path) -> None:
    seed = tmp_path / "orders.jsonl"
    seed.write_text('{"key": "a", "value": "x", "partition": 4}\n\n{"value": null}\n')
    properties = {"log.dirs": str(tmp_path / "data"), "num.partitions": "2"}
    topics = with_seeds(parse_topics("users:3:1:compact"), tmp_path)
    assert prepare(properties, topics) == [
        "created topic users: 3 partitions, 0 records",
        "created topic orders: 5 partitions, 2 records",
    ]
    first = records(tmp_path / "data", "orders")
    assert (4, b"a", "x") in first
    assert prepare(properties, topics) == []
    assert records(tmp_path / "data", "orders") == first


def test_unfinished_preparation_is_repeated(tmp_path: Path) -> None:
    seed = tmp_path / "orders.txt"
    seed.write_text("one\ntwo\n")
    data = tmp_path / "data"
    properties = {"log.dirs": str(data)}
    topics = with_seeds({}, tmp_path)
    with BrokerThread(data_dir=data) as broker:  # as a container leaves it that died behind the first record
        broker.create_topic("orders")
        broker.produce("orders", "one")
        broker.create_topic("others")
    (data / UNFINISHED).write_text(json.dumps(["orders", "never"]))
    assert prepare(properties, topics) == ["created topic orders: 1 partitions, 2 records"]
    assert [text for _, _, text in records(data, "orders")] == ["one", "two"]
    assert not (data / UNFINISHED).exists()


def test_invalid_seed_line_is_reported_and_can_be_fixed(tmp_path: Path) -> None:
    seed = tmp_path / "orders.jsonl"
    seed.write_text('{"value": "x"}\n{"value": 5}\n')
    properties = {"log.dirs": str(tmp_path / "data")}
    with pytest.raises(ConfigurationError, match=re.escape(f"seed data {seed}, line 2: a key or value must be a string")):
        prepare(properties, with_seeds({}, tmp_path))
    seed.write_text('{"value": "x"}\n{"value": "y"}\n')
    assert prepare(properties, with_seeds({}, tmp_path)) == ["created topic orders: 1 partitions, 2 records"]


def test_broker_error_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^topics of this container: topic orders: .*INVALID_REPLICATION_FACTOR"):
        prepare({"log.dirs": str(tmp_path / "data")}, list(parse_topics("orders:1:2").values()))
    assert prepare({"log.dirs": str(tmp_path / "data")}, list(parse_topics("orders:1:2").values()), broker_count=2)


def properties(data: Path) -> dict[str, str]:
    return {"log.dirs": str(data)}


def test_schemas_of_a_folder_are_registered_once(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "schemas"
    (folder / "orders-value").mkdir(parents=True)
    (folder / "orders-value" / "1.avsc").write_text('{"type": "record", "name": "Order", "fields": []}')
    (folder / "line.json").write_text('{"type": "object"}')
    (folder / "lines-value.json").write_text('{"$ref": "line.json"}')
    (folder / "lines-value.references.json").write_text('[{"name": "line.json", "subject": "line"}]')
    register = partial(register_schemas, folder)
    for _ in range(2):
        assert prepare(properties(data), [], then=register) == [f"schemas of {folder} are registered: 3"]
    (folder / "orders-value" / "2.avsc").write_text('"int"')
    with pytest.raises(ConfigurationError, match=r"orders-value/2.avsc: Schema being registered is incompatible with an earlier schema"):
        prepare(properties(data), [], then=register)
    with BrokerThread(data_dir=data) as broker:
        registered = {record.text for record in broker.records("_schemas") if record.key and b"SCHEMA" in record.key}
    assert len(registered) == 3
