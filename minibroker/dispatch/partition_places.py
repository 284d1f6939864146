"""Find the topics and partitions of requests and responses by the TopicName, TopicId and PartitionIndex fields of their schemas.

    request    [groups | transactions | markers]  ->  topics by name, by id, as resources  ->  [partitions: structs or bare indexes]
    response   [...]                              ->  topics with an error code in or under them  ->  [partitions with an error code]

A topic without a list of partitions is a place itself (CreateTopics), with partition None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from minibroker.dispatch.error_answer import ERROR_CODES, has_error_code
from minibroker.wire.api import Api
from minibroker.wire.schema import NIL_UUID, PARTITION_INDEX, TOPIC_ID, TOPIC_NAME, Struct, entities_of, fields_of

T = TypeVar("T")

_RESOURCE_IS_TOPIC: Final = 2  #: ConfigResource.Type.TOPIC


class Place(NamedTuple):
    """A topic or partition in a request or response."""

    topic: str  #: "" where it is named by its id
    topic_id: UUID
    partition: int | None  #: None: the topic as a whole


class Shape(NamedTuple):
    """The fields of a request's struct that name topics."""

    groups: tuple[str, ...]  #: lists of structs that have lists of topics
    topics: tuple[str, ...]  #: lists of topics
    bare: tuple[str, ...]  #: lists of names of topics


def _once_a_type(function: Callable[[type[Any]], T]) -> Callable[[type[Any]], T]:
    """Cache a function of a schema's struct."""
    known: dict[type[Any], T] = {}

    def look_up(struct_type: type[Any]) -> T:
        if struct_type not in known:
            known[struct_type] = function(struct_type)
        return known[struct_type]

    return look_up


def _names_topic(struct_type: type[Any] | None) -> bool:
    return struct_type is not None and not entities_of(struct_type).keys().isdisjoint((TOPIC_NAME, TOPIC_ID))


@_once_a_type
def shape_of(struct_type: type[Any]) -> Shape:
    """Of a request, or of an element of one of its `groups`."""
    lists = [field for field in fields_of(struct_type) if field.is_array]
    topics = tuple(field.name for field in lists if _names_topic(field.struct))
    inner = [field for field in lists if field.name not in topics]
    groups = tuple(field.name for field in inner if field.struct is not None and any(shape_of(field.struct)[:2]))
    bare = tuple(field.name for field in lists if field.entity == TOPIC_NAME)
    return Shape(groups, topics, bare)


@_once_a_type
def partitions_field(topic_type: type[Any]) -> str | None:
    """The list of partitions in a topic."""
    for field in fields_of(topic_type):
        if field.is_array and (
            field.entity == PARTITION_INDEX or (field.struct is not None and PARTITION_INDEX in entities_of(field.struct))
        ):
            return field.name
    return None


@_once_a_type
def answer_lists(struct_type: type[Any]) -> tuple[str, ...]:
    """Return the lists in an answer's struct whose elements have an error code."""
    return tuple(
        field.name for field in fields_of(struct_type) if field.is_array and field.struct is not None and has_error_code(field.struct)
    )


@_once_a_type
def own_error_code(struct_type: type[Any]) -> str | None:
    """Return the name of a struct's own error code field, if it has one."""
    return next((field.name for field in fields_of(struct_type) if field.name in ERROR_CODES), None)


def topic_of(element: Struct) -> tuple[str, UUID] | None:
    """Return name and id of a topic's struct, of which one is usually empty; None if the struct is not a topic."""
    entities = entities_of(type(element))
    name, topic_id = entities.get(TOPIC_NAME), entities.get(TOPIC_ID)
    if (name is None and topic_id is None) or getattr(element, "resource_type", _RESOURCE_IS_TOPIC) != _RESOURCE_IS_TOPIC:
        return None
    return (getattr(element, name) or "") if name else "", getattr(element, topic_id) if topic_id else NIL_UUID


def index_of(partition: Any) -> int | None:
    """Return the index of a partition, which is a number or a struct."""
    if isinstance(partition, int):
        return partition
    name = entities_of(type(partition)).get(PARTITION_INDEX)
    return None if name is None else getattr(partition, name)


def places_in(request: Struct) -> Iterator[Place]:
    """Yield every place that a request, or an element of one of its `groups`, names. A Fetch session has more."""
    shape = shape_of(type(request))
    for name in shape.topics:
        for element in getattr(request, name) or ():
            topic = topic_of(element)
            if topic is None:
                continue
            partitions = partitions_field(type(element))
            if partitions is None:
                yield Place(*topic, None)
            else:
                for each in getattr(element, partitions) or ():
                    yield Place(*topic, index_of(each))
    for name in shape.bare:
        for topic_name in getattr(request, name) or ():
            yield Place(topic_name, NIL_UUID, None)
    for name in shape.groups:
        for element in getattr(request, name) or ():
            yield from places_in(element)


def answers_places(response_type: type[Any]) -> bool:
    """Whether an answer has a place for the error of a single topic or partition."""
    for name in answer_lists(response_type):
        struct_type = next(field.struct for field in fields_of(response_type) if field.name == name)
        if struct_type is None:
            continue
        if _names_topic(struct_type) or answers_places(struct_type):
            return True
    return False


def partitions_below(api: Api) -> bool:
    """Whether an API's requests, or the errors in its answers, name partitions."""
    return _asks_partitions(api.Request) or _answers_partitions(api.Response)


def _asks_partitions(struct_type: type[Any]) -> bool:
    shape = shape_of(struct_type)
    types = {field.name: field.struct for field in fields_of(struct_type) if field.struct is not None}
    return any(partitions_field(types[name]) is not None for name in shape.topics) or any(
        _asks_partitions(types[name]) for name in shape.groups
    )


def _answers_partitions(struct_type: type[Any]) -> bool:
    types = [field.struct for field in fields_of(struct_type) if field.name in answer_lists(struct_type)]
    return any(each is not None and (PARTITION_INDEX in entities_of(each) or _answers_partitions(each)) for each in types)


def overlays(response_type: type[Any]) -> bool:
    """Whether an answer has errors of topics and of their partitions (Metadata, DescribeTopicPartitions)."""
    types = [field.struct for field in fields_of(response_type) if field.name in answer_lists(response_type)]
    return any(each is not None and _is_topic_apart(each) for each in types)


def _is_topic_apart(struct_type: type[Any]) -> bool:
    return TOPIC_NAME in entities_of(struct_type) and own_error_code(struct_type) is not None and _answers_partitions(struct_type)
