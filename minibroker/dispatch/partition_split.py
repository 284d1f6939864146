"""Find the topics and partitions of requests and responses, and split a request into a served and a rejected part.

A Place is a topic or partition in a request or response. The TopicName, TopicId and PartitionIndex
fields of the schemas show where:

    request    [groups | transactions | markers]  ->  topics by name, by id, as resources  ->  [partitions: structs or bare indexes]
    response   [...]                              ->  topics with an error code in or under them  ->  [partitions with an error code]

A topic without a list of partitions is a place itself (CreateTopics), with partition None.

    found = split(api, version, request, error_of)       the request for the handler, and the answer to the rejected part
    join(response, refused)                              the handler's answer, with the errors of the rejected part
    overlay(response, error_of, version)                 an answer to finished work, with errors in some places

A transaction adds all partitions of AddPartitionsToTxn or none: if one is rejected, the others are
OPERATION_NOT_ATTEMPTED. A request for all topics does not name them, so that none is rejected here.
Fetch and ShareFetch have sessions with more partitions than the requests name: for these, a
RefusingCluster makes the look-ups of rejected partitions fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.dispatch.error_answer import ERROR_CODES, error_answer, has_error_code
from minibroker.errors import NONE, KafkaError, OperationNotAttempted
from minibroker.schemas import k24_add_partitions_to_txn
from minibroker.wire.api import Api
from minibroker.wire.schema import NIL_UUID, PARTITION_INDEX, TOPIC_ID, TOPIC_NAME, Struct, entities_of, fields_of, replace

T = TypeVar("T")

_RESOURCE_IS_TOPIC: Final = 2  #: ConfigResource.Type.TOPIC


class Place(NamedTuple):
    """A topic or partition in a request or response."""

    topic: str  #: "" if the request has the topic id
    topic_id: UUID
    partition: int | None  #: None: the topic as a whole


class Shape(NamedTuple):
    """The fields of a request's struct that name topics."""

    groups: tuple[str, ...]  #: lists of structs that have lists of topics
    topics: tuple[str, ...]  #: lists of topics
    bare: tuple[str, ...]  #: lists of names of topics


def _cached_by_type(function: Callable[[type[Any]], T]) -> Callable[[type[Any]], T]:
    """Cache a function of a schema's struct."""
    known: dict[type[Any], T] = {}

    def look_up(struct_type: type[Any]) -> T:
        if struct_type not in known:
            known[struct_type] = function(struct_type)
        return known[struct_type]

    return look_up


def _names_topic(struct_type: type[Any] | None) -> bool:
    return struct_type is not None and not entities_of(struct_type).keys().isdisjoint((TOPIC_NAME, TOPIC_ID))


@_cached_by_type
def shape_of(struct_type: type[Any]) -> Shape:
    """Return the shape of a request, or of an element of one of its `groups`."""
    lists = [field for field in fields_of(struct_type) if field.is_array]
    topics = tuple(field.name for field in lists if _names_topic(field.struct))
    inner = [field for field in lists if field.name not in topics]
    groups = tuple(field.name for field in inner if field.struct is not None and any(shape_of(field.struct)[:2]))
    bare = tuple(field.name for field in lists if field.entity == TOPIC_NAME)
    return Shape(groups, topics, bare)


@_cached_by_type
def partitions_field(topic_type: type[Any]) -> str | None:
    """Return the name of the list of partitions in a topic's struct; None if it has no such list."""
    for field in fields_of(topic_type):
        if field.is_array and (
            field.entity == PARTITION_INDEX or (field.struct is not None and PARTITION_INDEX in entities_of(field.struct))
        ):
            return field.name
    return None


@_cached_by_type
def answer_lists(struct_type: type[Any]) -> tuple[str, ...]:
    """Return the lists in an answer's struct whose elements have an error code."""
    return tuple(
        field.name for field in fields_of(struct_type) if field.is_array and field.struct is not None and has_error_code(field.struct)
    )


@_cached_by_type
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
    """Yield every place in a request, or in an element of one of its `groups`."""
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
    """Whether an answer can have the error of a single topic or partition."""
    for name in answer_lists(response_type):
        struct_type = next(field.struct for field in fields_of(response_type) if field.name == name)
        if struct_type is None:
            continue
        if _names_topic(struct_type) or answers_places(struct_type):
            return True
    return False


def partitions_below(api: Api) -> bool:
    """Whether an API's requests, or the errors in its answers, have partitions."""
    return _request_has_partitions(api.Request) or _answers_partitions(api.Response)


def _request_has_partitions(struct_type: type[Any]) -> bool:
    shape = shape_of(struct_type)
    types = {field.name: field.struct for field in fields_of(struct_type) if field.struct is not None}
    return any(partitions_field(types[name]) is not None for name in shape.topics) or any(
        _request_has_partitions(types[name]) for name in shape.groups
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


#: (topic's name, its id, partition's index or None for the topic itself) -> the error if it is rejected; name or id may be empty
ErrorOf = Callable[[str, UUID, int | None], KafkaError | None]

_IsChosen = Callable[[Place | None], bool]  #: None is a resource that is not a topic, such as a broker in DescribeConfigs

_KEYS: Final = ("resource_type", "group_id", "transactional_id", "producer_id")
_NOT_ATTEMPTED: Final = OperationNotAttempted()


class Split(NamedTuple):
    """A request whose rejected part is answered."""

    rest: Any | None  #: the request for the handler: the whole request if nothing is rejected, None if all is
    refused: Any | None  #: the answer to the rejected part, for `join`; None if nothing is rejected


def split(api: Api, version: int, request: Any, error_of: ErrorOf) -> Split:
    """Split off the places for which `error_of` returns an error; it is called once for each place."""
    errors = {place: error for place in dict.fromkeys(places_in(request)) if (error := error_of(*place)) is not None}
    if not errors:
        return Split(request, None)
    if api.key == k24_add_partitions_to_txn.API_KEY:
        _refuse_whole_transactions(request, errors)
    rest = _only(request, lambda place: place is None or place not in errors)
    refused = None
    for kind in dict.fromkeys((error.code, str(error)) for error in errors.values()):
        alike = {place: error for place, error in errors.items() if (error.code, str(error)) == kind}
        part = _only(request, alike.__contains__)
        if part is None:
            continue
        answer = _without_outer_errors(error_answer(api.Response, part, next(iter(alike.values())), version))
        refused = answer if refused is None else join(refused, answer)
    return Split(rest, refused)


def _refuse_whole_transactions(request: Any, errors: dict[Place, KafkaError]) -> None:
    for scope in request.transactions or [request]:
        places = list(places_in(scope))
        if any(place in errors for place in places):
            for place in places:
                errors.setdefault(place, _NOT_ATTEMPTED)


def _only(request: Any, is_chosen: _IsChosen) -> Any | None:
    """Return a request, or a part of it, with the chosen places only; None if it had places and none is chosen."""
    shape = shape_of(type(request))
    changes: dict[str, list[Any]] = {}
    for name in shape.topics:
        changes[name] = [kept for each in getattr(request, name) or () if (kept := _only_of_topic(each, is_chosen)) is not None]
    for name in shape.bare:
        changes[name] = [each for each in getattr(request, name) or () if is_chosen(Place(each, NIL_UUID, None))]
    for name in shape.groups:
        changes[name] = [kept for each in getattr(request, name) or () if (kept := _only(each, is_chosen)) is not None]
    if not any(changes.values()) and any(getattr(request, name) for name in changes):
        return None
    return replace(request, **{name: value for name, value in changes.items() if getattr(request, name) is not None})


def _only_of_topic(element: Struct, is_chosen: _IsChosen) -> Struct | None:
    topic = topic_of(element)
    if topic is None:
        return element if is_chosen(None) else None
    partitions = partitions_field(type(element))
    if partitions is None:
        return element if is_chosen(Place(*topic, None)) else None
    kept = [each for each in getattr(element, partitions) if is_chosen(Place(*topic, index_of(each)))]
    return replace(element, **{partitions: kept}) if kept else None


def join(response: Any, refused: Any) -> Any:
    """Add the results of `refused` (of a Split, or another answer of the API) to `response`; a topic in both becomes one."""
    for name in answer_lists(type(response)):
        _join_lists(getattr(response, name), getattr(refused, name))
    return response


def _join_lists(into: list[Any], added: Iterable[Any]) -> None:
    places = {_key(each): each for each in into}
    for each in added:
        found = places.get(_key(each)) if _key(each) else None
        if found is not None and answer_lists(type(each)):
            join(found, each)
        else:
            into.append(each)


def _key(element: Any) -> tuple[Any, ...]:
    struct_type = type(element)
    topic = [name for entity, name in entities_of(struct_type).items() if entity != PARTITION_INDEX]
    return tuple(getattr(element, name) for name in (*topic, *_KEYS) if name in struct_type.declared_)


def _without_outer_errors(answer: Any) -> Any:
    """Keep the errors of rejected places, and remove those of the structs around them."""
    parts = [each for name in answer_lists(type(answer)) for each in getattr(answer, name)]
    for each in parts:
        _without_outer_errors(each)
    code = own_error_code(type(answer))
    if parts and code is not None:
        setattr(answer, code, NONE)
        if "error_message" in type(answer).declared_:
            answer.error_message = None
    return answer


def overlay(response: Any, error_of: ErrorOf, version: int) -> Any:
    """Replace the results of the places for which `error_of` returns an error."""
    for name in answer_lists(type(response)):
        elements = getattr(response, name)
        elements[:] = [_overlaid(each, error_of, version) for each in elements]
    return response


def _overlaid(element: Any, error_of: ErrorOf, version: int) -> Any:
    topic = topic_of(element)
    if topic is None:
        return overlay(element, error_of, version)
    if own_error_code(type(element)) is not None:
        error = error_of(*topic, None)
        if error is not None:
            failed = error_answer(type(element), element, error, version)
            for name in answer_lists(type(failed)):
                setattr(failed, name, [])
            return failed
    for name in answer_lists(type(element)):
        partitions = getattr(element, name)
        for position, each in enumerate(partitions):
            index = index_of(each)
            error = None if index is None else error_of(*topic, index)
            if error is not None:
                partitions[position] = error_answer(type(each), each, error, version)
    return element


class RefusingCluster:
    """A cluster as one request sees it: look-ups of rejected partitions fail."""

    __slots__ = ("_cluster", "_error_of")

    def __init__(self, cluster: Cluster, error_of: ErrorOf) -> None:
        self._cluster = cluster
        self._error_of = _either(cluster.refuses, error_of) if isinstance(cluster, AuthorizedCluster) else error_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition as Cluster does, or raise its error."""
        error = self._error_of(topic, NIL_UUID, index)
        if error is not None:
            raise error.with_traceback(None)
        return self._cluster.partition(topic, index)

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition:
        """Return a partition as Cluster does, or raise its error."""
        error = self._error_of("", topic_id, index)
        if error is not None:
            raise error.with_traceback(None)
        return self._cluster.partition_by_id(topic_id, index)


class AuthorizedCluster(RefusingCluster):
    """A cluster as one client may see it.

    Its errors take precedence over those of faults and simulated brokers, which wrap it again.
    """

    __slots__ = ("refuses",)

    def __init__(self, cluster: Cluster, error_of: ErrorOf) -> None:
        super().__init__(cluster, error_of)
        self.refuses = error_of


def _either(first: ErrorOf, second: ErrorOf) -> ErrorOf:
    def error_of(name: str, topic_id: UUID, index: int | None) -> KafkaError | None:
        return first(name, topic_id, index) or second(name, topic_id, index)

    return error_of
