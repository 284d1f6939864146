"""Schemas mark the topics and partitions that a message is about: TopicName, TopicId, ResourceName and PartitionIndex.

Nothing fails in a broker if a new schema forgets that: a fault for a topic, or a refused partition, would have no effect. These tests
know Kafka's spellings.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from minibroker.dispatch.error_answer import has_error_code
from minibroker.wire.api import api_of, name_of
from minibroker.wire.schema import PARTITION_INDEX, TOPIC_ID, TOPIC_NAME, Field, fields_of
from tests.schemas.declared import schema_modules

NAMES = {"name": TOPIC_NAME, "topic": TOPIC_NAME, "topic_name": TOPIC_NAME, "resource_name": TOPIC_NAME, "topic_id": TOPIC_ID}
INDEXES = dict.fromkeys(("partition_index", "index", "partition", "partition_id"), PARTITION_INDEX)
KINDS = {TOPIC_NAME: "string", TOPIC_ID: "uuid", PARTITION_INDEX: "int32"}

#: lists of topics or partitions that a message only mentions
MENTIONED = {
    "forgotten_topics_data",  # leaves a fetch session
    "assignments",  # brokers for partitions of a new topic
}


def structs(struct_type: type[Any]) -> Iterator[tuple[Field, type[Any]]]:
    for each in fields_of(struct_type):
        if each.is_array and each.struct is not None and each.name not in MENTIONED:
            yield each, each.struct
            yield from structs(each.struct)


def unmarked(struct_type: type[Any], spellings: dict[str, str]) -> list[str]:
    return [each.name for each in fields_of(struct_type) if each.name in spellings and each.entity != spellings[each.name]]


@pytest.mark.parametrize("schema", schema_modules(), ids=name_of)
def test_topic_fields_of_requests_are_marked(schema: ModuleType) -> None:
    for field, struct_type in structs(api_of(schema).Request):
        if field.name.endswith(("topics", "topic_data", "topic_partitions", "resources")):
            assert unmarked(struct_type, NAMES) == [], field.name
            assert unmarked(struct_type, INDEXES) == []
            for each in fields_of(struct_type):
                if each.is_array and each.kind == "int32":
                    assert each.entity == PARTITION_INDEX, each.name
                elif each.struct is not None and "partition" in each.name:
                    assert unmarked(each.struct, INDEXES) == [], each.name


@pytest.mark.parametrize("schema", schema_modules(), ids=name_of)
def test_topic_fields_with_errors_are_marked_in_responses(schema: ModuleType) -> None:
    for field, struct_type in structs(api_of(schema).Response):
        if has_error_code(struct_type):
            assert unmarked(struct_type, {**NAMES, **INDEXES}) == [], field.name


@pytest.mark.parametrize("schema", schema_modules(), ids=name_of)
def test_marked_fields_have_the_type_of_their_entity(schema: ModuleType) -> None:
    api = api_of(schema)
    for root in (api.Request, api.Response):
        for struct_type in (root, *(each for _, each in structs(root))):
            names = {each.name for each in fields_of(struct_type)}
            for each in fields_of(struct_type):
                assert each.entity is None or each.kind == KINDS[each.entity]
                assert each.entity is None or each.name != "resource_name" or "resource_type" in names
