"""The benchmark of brokers under test: what it measures is done, and what it tells is what it measured."""

from __future__ import annotations

from typing import Any

import testing

from minibroker.testing import BrokerThread


def test_topics_exist_before_a_reset_and_are_gone_after_it() -> None:
    seen = []
    with BrokerThread() as broker:

        def reset() -> None:
            seen.append(len(broker.topics()))
            broker.reset()
            seen.append(len(broker.topics()))

        testing.spread(broker, reset, 2, before=lambda broker: testing.write(broker, creates=True))
    assert seen == [50, 0, 50, 0]


def test_a_seed_comes_back_with_its_records() -> None:
    with BrokerThread(topics=testing.TOPICS) as broker:
        figures = testing.of_a_seed(broker, 2)
        assert [len(broker.records(topic)) for topic in testing.WRITTEN] == [1] * 10
    assert 0 < figures.median <= figures.p90


def test_a_suite_is_run_whole() -> None:
    figures = testing.suite(2)
    assert figures["ms a test"] == figures["wall s"] * 500
    assert figures["CPU s"] > 0


def test_page_shows_which_targets_are_met() -> None:
    good, bad = testing.Spread(2, 3, 1), testing.Spread(600, 700, 500)
    found: dict[str, Any] = {
        "about": {"date": "2026-11-22 18:00", "commit": "f00", "load": 0.1, "machine": {"processor": "one"}, "tests": 200},
        "reset ms": {
            "thread, memory": dict.fromkeys([*testing.KINDS, testing.SEED], good),
            "slow": {**dict.fromkeys(testing.KINDS, bad), testing.SEED: good},
        },
        "start ms": {"thread": good, "process": bad},
        "suite": {"Apache Kafka": {"wall s": 60.0, "CPU s": 30.0, "ms a test": 300.0}},
    }
    page = testing.tables(found)
    assert [line.count("✓ met") - line.count("✗ not met") for line in page.splitlines() if "met" in line] == [1, -1, 1, -1]
    assert "2.0 / 3.0 / 1.0" in page
    assert "| Apache Kafka   | 60.0" in page
    assert testing.SECTION.search(testing.PAGE.read_text())
