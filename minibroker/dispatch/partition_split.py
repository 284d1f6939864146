"""Split a request into topics or partitions that are served and others that are rejected, and join the two answers.

    found = split(api, version, request, error_of)       the request for the handler, and the answer to the rejected part
    join(response, refused)                              the handler's answer, with the errors of the rejected part
    overlay(response, error_of, version)                 an answer to finished work, with errors in some places

It uses the schemas alone (partition_places.py, error_answer.py). A transaction adds all partitions of AddPartitionsToTxn or none: if one is
rejected, the others are OPERATION_NOT_ATTEMPTED. A request for all topics names none, so that nothing of it is rejected here. Sessions of
Fetch and ShareFetch have more partitions than the requests name: see partition_refusal.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from minibroker.dispatch.error_answer import error_answer
from minibroker.dispatch.partition_places import (
    Place,
    answer_lists,
    index_of,
    own_error_code,
    partitions_field,
    places_in,
    shape_of,
    topic_of,
)
from minibroker.errors import NONE, KafkaError, OperationNotAttempted
from minibroker.schemas import k24_add_partitions_to_txn
from minibroker.wire.api import Api
from minibroker.wire.schema import NIL_UUID, PARTITION_INDEX, Struct, entities_of, replace

#: (topic's name, its id, partition's index or None for the topic itself) -> why it is refused, or None; name or id may be empty
ErrorOf = Callable[[str, UUID, int | None], KafkaError | None]

_IsWanted = Callable[[Place | None], bool]  #: None: what is no topic, such as a broker in DescribeConfigs

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


def _only(asking: Any, is_wanted: _IsWanted) -> Any | None:
    """Return a request, or a part of it, with the chosen places only; None if it had places and none is chosen."""
    shape = shape_of(type(asking))
    changes: dict[str, list[Any]] = {}
    for name in shape.topics:
        changes[name] = [kept for each in getattr(asking, name) or () if (kept := _only_of_topic(each, is_wanted)) is not None]
    for name in shape.bare:
        changes[name] = [each for each in getattr(asking, name) or () if is_wanted(Place(each, NIL_UUID, None))]
    for name in shape.groups:
        changes[name] = [kept for each in getattr(asking, name) or () if (kept := _only(each, is_wanted)) is not None]
    if not any(changes.values()) and any(getattr(asking, name) for name in changes):
        return None
    return replace(asking, **{name: value for name, value in changes.items() if getattr(asking, name) is not None})


def _only_of_topic(element: Struct, is_wanted: _IsWanted) -> Struct | None:
    topic = topic_of(element)
    if topic is None:
        return element if is_wanted(None) else None
    partitions = partitions_field(type(element))
    if partitions is None:
        return element if is_wanted(Place(*topic, None)) else None
    kept = [each for each in getattr(element, partitions) if is_wanted(Place(*topic, index_of(each)))]
    return replace(element, **{partitions: kept}) if kept else None


def join(response: Any, refused: Any) -> Any:
    """Add the results of `refused` (of a Split, or another answer of the API) to `response`; a topic in both becomes one."""
    for name in answer_lists(type(response)):
        _join_lists(getattr(response, name), getattr(refused, name))
    return response


def _join_lists(into: list[Any], others: Iterable[Any]) -> None:
    places = {_key(each): each for each in into}
    for each in others:
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
    """Leave errors at the rejected places alone, not above them."""
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
