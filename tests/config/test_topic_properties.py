"""Every topic config against the listing of an Apache Kafka 4.3.1: names, types, defaults, synonyms, and which texts are valid."""

from __future__ import annotations

import pytest

from minibroker.cluster.configs.topic_config import check_overrides
from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.topic_properties import SEGMENT_BYTES_MIN, SYNONYMS, TOPIC_PROPERTIES
from minibroker.errors import KafkaError
from tests.config.kafka_configs import TEXTS, TOPIC_CONFIGS, VALIDATION


def test_table_matches_kafka() -> None:
    ours = {name: (prop.default, prop.type) for name, prop in TOPIC_PROPERTIES.items()}
    assert ours == {name: (value, kind) for name, (value, kind, *_) in TOPIC_CONFIGS.items()}


def test_synonyms_are_broker_properties() -> None:
    assert {broker for synonyms in SYNONYMS.values() for broker, _ in synonyms} <= set(BROKER_PROPERTIES)
    kafkas = {name: synonyms[0][0] for name, (*_, synonyms) in TOPIC_CONFIGS.items() if synonyms}
    assert {name: SYNONYMS[name][0][0] for name in kafkas} == kafkas


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS))
def test_values_are_validated_like_kafka(name: str) -> None:
    judged: list[str | None] = []
    for text in TEXTS:
        try:
            check_overrides({name: text})
            judged.append(None)
        except KafkaError as error:
            judged.append(str(error))

    expected = list(VALIDATION[name])
    if name == "segment.bytes":  # smaller segments are allowed here, see topic_properties.py
        expected = [
            None if text in {"17", "18", "22", "23"} else message and message.replace("at least 1048576", f"at least {SEGMENT_BYTES_MIN}")
            for text, message in zip(TEXTS, expected, strict=True)
        ]
    assert dict(zip(map(repr, TEXTS), judged, strict=True)) == dict(zip(map(repr, TEXTS), expected, strict=True))
