"""The reference is complete and true: held against what Apache Kafka prints of its own configs, and against our source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.definition import TYPE_NAMES
from minibroker.config.differences import EFFECTS, KAFKA_DEFAULTS, NO_EFFECT, NOT_KAFKAS, ONLY_OURS, READ_ONLY_HERE
from minibroker.config.group_properties import GROUP_LIMITS, GROUP_PROPERTIES, GROUP_SYNONYMS
from minibroker.config.reference import BROKER, GROUP, KINDS, TOPIC, ReferenceEntry, entries, named
from minibroker.config.topic_properties import SYNONYMS, TOPIC_PROPERTIES
from tests.config.reference_page import is_read

#: python -m tests.golden capture config_docs
DOCS = json.loads((Path(__file__).parents[1] / "golden" / "config_docs_kafka_4.3.1.json").read_text())

#: stricter or laxer here than in Apache Kafka: (ours, Kafka's)
OTHER_VALID_VALUES = {
    "broker.id": ("[-1,...]", ""),  # there it is checked by hand
    "default.replication.factor": ("[1,...]", ""),  # likewise
    "group.consumer.assignors": ("[uniform, range]", ""),  # classes in Java may be named there
    "group.initial.rebalance.delay.ms": ("[0,...]", ""),
    "group.share.assignors": ("[simple]", ""),
    "log.segment.bytes": ("[14,...]", "[1048576,...]"),
    "request.timeout.ms": ("[0,...]", ""),
    "segment.bytes": ("[14,...]", "[1048576,...]"),
    "socket.receive.buffer.bytes": ("[-1,...]", ""),
    "socket.send.buffer.bytes": ("[-1,...]", ""),
}

READ_BY_CONFIG = {"listener.security.protocol.map", "controller.listener.names", "log.dir", "broker.id"}


@pytest.mark.parametrize("kind", [BROKER, TOPIC, GROUP])
def test_facts_about_kafka_match_its_documentation(kind: str) -> None:
    documented = {entry.name: entry for entry in entries(kind) if entry.is_kafkas}
    for name, entry in documented.items():
        kind_text, default, valid, *last = DOCS[kind][name]
        assert (name, entry.kafka_default) == (name, default)
        assert (name, entry.type) == (name, kind_text)
        assert (name, entry.valid_values, valid) == (name, *OTHER_VALID_VALUES.get(name, (valid, valid)))
        if kind == BROKER:
            assert (name, entry.update_mode) == (name, "read-only" if name in READ_ONLY_HERE else last[0])
        if kind == TOPIC:
            assert (name, (*entry.behind, None)[0]) == (name, last[0])
    assert documented.keys() - DOCS[kind].keys() == set()
    if kind != BROKER:
        assert documented.keys() == DOCS[kind].keys()


def test_property_tables_are_consistent() -> None:
    assert set(KAFKA_DEFAULTS) | set(EFFECTS) | NOT_KAFKAS <= set(BROKER_PROPERTIES)
    assert set(BROKER_PROPERTIES) | set(TOPIC_PROPERTIES) >= NO_EFFECT
    assert [name for name, default in KAFKA_DEFAULTS.items() if BROKER_PROPERTIES[name].default == default] == []
    assert NOT_KAFKAS.isdisjoint(DOCS[BROKER])
    assert ONLY_OURS < NOT_KAFKAS


def test_every_entry_is_complete() -> None:
    everything: list[ReferenceEntry] = [entry for kind in KINDS for entry in entries(kind)]
    for entry in everything:
        assert entry.documentation.endswith("."), entry.name
        assert not entry.difference or entry.difference.endswith("."), entry.name
        assert entry.update_mode, entry.name
        assert bool(entry.unit) == (entry.type in {"int", "short", "long", "double"}), entry.name
    assert {entry.type for entry in everything} <= {name.lower() for name in TYPE_NAMES.values()}
    assert [entry.kind for entry in named("compression.type")] == [BROKER, TOPIC]
    assert named("no.such.property") == []


def test_only_properties_without_effect_are_unread() -> None:
    topics = {name for name in TOPIC_PROPERTIES if is_read(name)}
    groups = {name for name in GROUP_PROPERTIES if is_read(name)}
    behind = {name for topic, synonyms in SYNONYMS.items() if topic in topics for name, _ in synonyms}
    behind |= {name for group, name in GROUP_SYNONYMS.items() if group in groups}
    behind |= {name for group, limits in GROUP_LIMITS.items() if group in groups for name in limits if name}
    brokers = {name for name in BROKER_PROPERTIES if is_read(name)} | behind | READ_BY_CONFIG
    assert (set(BROKER_PROPERTIES) - brokers) | (set(TOPIC_PROPERTIES) - topics) == NO_EFFECT
    assert groups == set(GROUP_PROPERTIES)
