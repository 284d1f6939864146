"""Capture Apache Kafka's broker configs. The running broker must be new, with node.id 1.

Its properties file sets what a KRaft node needs, num.partitions, the replication factors of internal topics and
group.initial.rebalance.delay.ms. Writes broker_configs_kafka_4.3.1.json:
    configs         name -> value, type, source, read_only, is_sensitive, synonyms [name, value, source], of DescribeConfigs v4
    documentation   name -> its documentation in DescribeConfigs
    attempts        [name, value, answer for the broker, answer for all brokers, answer of AlterConfigs for the broker]
    steps           of STEPS: [answer, configs of the broker, configs of all brokers]; an answer is [error code, message]
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.golden.broker_config_scenes import ALL, ATTEMPTS, NODE, SEEN, SET, STEPS, change, describe, refusal, replace, rows, step
from tests.golden.captures.admin import ask

FILE = Path(__file__).parents[1] / "broker_configs_kafka_4.3.1.json"


def attempt(port: int, name: str, value: str) -> list[Any]:
    """What the broker answers when one config is to be set; nothing is changed."""
    changes = [ask(port, change(who, [(name, SET, value)], validate_only=True)) for who in (NODE, ALL)]
    whole = ask(port, replace(NODE, {name: value}, validate_only=True))
    return [name, value, *(refusal(answer) for answer in (*changes, whole))]


def done(port: int) -> list[list[Any]]:
    """Do the steps; the broker replays a change soon after its answer."""
    found = []
    for who, changes in STEPS:
        answer = refusal(ask(port, step(who, changes)))
        time.sleep(1)
        found.append([answer, *(rows(ask(port, describe(each, SEEN))) for each in (NODE, ALL))])
    return found


def capture(port: int) -> None:
    """Ask everything and write the file."""
    answer = ask(port, describe(NODE, documentation=True))
    content = {
        "provenance": "Apache Kafka 4.3.1, one KRaft node; asked by python -m tests.golden capture broker_configs",
        "configs": rows(answer),
        "documentation": {each.name: each.documentation for each in sorted(answer.results[0].configs, key=lambda config: config.name)},
        "attempts": [attempt(port, name, value) for name, value in ATTEMPTS],
        "steps": done(port),
    }
    FILE.write_text(
        json.dumps(content, separators=(",", ":")).replace('],"', '],\n"').replace('","', '",\n"').replace("],[", "],\n[") + "\n"
    )
