"""An answer has the same batches as that of Apache Kafka 4.3.1 (tests/golden/captures/fetched_batches.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.captures.fetched_batches import ANSWERS, FETCHES, TOPICS, fetch, fill
from tests.support.broker_in_memory import BrokerInMemory

KAFKA: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())["answers"]
RECOMPRESSED = {name for name, (config, _) in TOPICS.items() if config}  #: by another version of the library


@pytest.fixture(scope="module")
def broker() -> BrokerInMemory:
    broker = BrokerInMemory()
    fill(broker.ask)
    return broker


def test_captured_answers_cover_every_fetch() -> None:
    assert set(KAFKA) == set(FETCHES)


@pytest.mark.parametrize("what", [what for what, (_, _, requested) in FETCHES.items() if not {"plain", "other"} & set(requested)])
def test_every_version_gets_every_codec_like_kafka(broker: BrokerInMemory, what: str) -> None:
    ours = fetch(broker.ask, *FETCHES[what])
    theirs = KAFKA[what]
    for answers in (ours, theirs):
        for name in RECOMPRESSED & set(answers):
            answers[name].pop("size", None)
    assert ours == theirs


@pytest.mark.parametrize("what", [what for what, (_, _, requested) in FETCHES.items() if {"plain", "other"} & set(requested)])
def test_answer_stops_at_a_whole_batch(broker: BrokerInMemory, what: str) -> None:
    ours = fetch(broker.ask, *FETCHES[what])
    size = 1070
    left = FETCHES[what][1]
    for name, answer in ours.items():
        theirs = KAFKA[what][name]
        assert (answer["error_code"], answer["high_watermark"]) == (theirs["error_code"], theirs["high_watermark"])
        assert answer["size"] == size * len(answer["codecs"])
        assert answer["size"] <= max(left, size)
        assert len(answer["codecs"]) >= len(theirs["codecs"])  # more where Kafka spent the limit of all on a cut batch
        left -= answer["size"]
    if len(ours) == 1:
        assert [answer["codecs"] for answer in ours.values()] == [answer["codecs"] for answer in KAFKA[what].values()]
