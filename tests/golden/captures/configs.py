"""Capture Apache Kafka's topic and broker configs. The running broker must have node.id 1 and default configs.

Writes configs_kafka_4.3.1.json:
    topic       name -> value, type, source, read_only, is_sensitive, synonyms [name, value, source], of a topic without overrides
    broker      name -> default (null when there is none), type, read_only, is_sensitive
    texts       the texts tried as values
    validation  topic config -> for each text, null when CreateTopics accepts it, else the message
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k32_describe_configs as k32
from tests.golden.admin_scenarios import BROKER, TOPIC, create
from tests.golden.captures.admin import ask

FILE = Path(__file__).parents[1] / "configs_kafka_4.3.1.json"
TEXTS = [
    "", "abc", "-131073", "-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "17", "18", "22", "23", "1048576", "2147483647", "2147483648",
    "9223372036854775807", "9223372036854775808", "-0.1", "0.5", "1.1", " 5 ", "+5", "1e3", "12345678.9", "true", "TRUE", "no", "delete",
    "compact", "compact,delete", "delete, delete", "compact,x", "gzip", "GZIP", "uncompressed", "CreateTime", "createtime", "*", "0:1",
    "0:1,1:1", "x:y", None,
]  # fmt: skip
DEFAULT_SOURCE = 5


def describe(port: int, kind: int, name: str) -> list[k32.Config]:
    """Everything about one resource."""
    resource = k32.Resource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = ask(port, k32.Request(resources=[resource], include_synonyms=True, include_documentation=False))
    configs: list[k32.Config] = answer.results[0].configs
    return sorted(configs, key=lambda config: config.name)


def topic_row(config: k32.Config) -> list[Any]:
    """As in the file."""
    synonyms = [[each.name, each.value, each.source] for each in config.synonyms]
    return [config.value, config.config_type, config.config_source, config.read_only, config.is_sensitive, synonyms]


def broker_row(config: k32.Config) -> list[Any]:
    """As in the file."""
    defaults = [each.value for each in config.synonyms if each.source == DEFAULT_SOURCE and each.name == config.name]
    return [defaults[0] if defaults else None, config.config_type, config.read_only, config.is_sensitive]


def validation(port: int, name: str) -> list[str | None]:
    """What CreateTopics says to each text as the value of one config."""
    requests = [create(f"probe-{index}", configs=[(name, text)]) for index, text in enumerate(TEXTS)]
    answer = ask(port, k19.Request(topics=[request.topics[0] for request in requests], validate_only=True))
    messages = {topic.name: topic.error_message if topic.error_code else None for topic in answer.topics}
    return [messages[f"probe-{index}"] for index in range(len(TEXTS))]


def capture(port: int) -> None:
    """Ask everything and write the file."""
    ask(port, create("plain", validate_only=False))
    topic = {config.name: topic_row(config) for config in describe(port, TOPIC, "plain")}
    content = {
        "provenance": "Apache Kafka 4.3.1, one KRaft node; asked by python -m tests.golden capture configs",
        "topic": topic,
        "broker": {config.name: broker_row(config) for config in describe(port, BROKER, "1")},
        "texts": TEXTS,
        "validation": {name: validation(port, name) for name in topic},
    }
    FILE.write_text(json.dumps(content, separators=(",", ":")).replace('},"', '},\n"').replace('],"', '],\n"') + "\n")
