"""Answer a request of any API that failed as a whole: the error in every `error_code` of the response.

The answer is built from the schemas alone. A list of the response mirrors the list of the request
whose elements identify the same entities (topics by name or topic_id, partitions by index, groups
by group_id), level by level, so that the client finds its topics in the response. If the request
has only one list, the mirrored list may be inside it, as in AlterReplicaLogDirs. Other lists stay
empty.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.errors import KafkaError
from minibroker.wire.schema import MISSING, NIL_UUID, Field, default_of, entities_of, fields_of

#: the fields with the error of an element; AddPartitionsToTxn uses another name
ERROR_CODES: Final = frozenset({"error_code", "partition_error_code"})

#: fields that identify an element for the client, besides topics and partitions, which have an `entity`
_KEYS: Final = frozenset({"group_id", "transactional_id", "producer_id"})

#: fields copied from the request; a copied timestamp or offset would look like a result
_REPEATED: Final = _KEYS | {"resource_type"}

_ZERO: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": NIL_UUID, "float64": 0.0}


def error_answer(response_type: type[Any], request: Any, error: KafkaError, version: int) -> Any:
    """Return a `response_type` in which every element of `request` failed with `error`."""
    return response_type(**{field.name: _value(field, request, error, version) for field in fields_of(response_type)})


def _value(field: Field, request: Any, error: KafkaError, version: int) -> Any:
    if field.name in ERROR_CODES:
        return error.code
    if field.name == "acknowledge_error_code":
        return 0  # acknowledgements in a ShareFetch have their own error
    if field.name == "error_message" and field.nullable is not None:
        return str(error)
    if field.is_array:
        return _mirrored(field, request, error, version)
    if field.entity is not None or field.name in _REPEATED:
        copied = _repeated(field, request)
        if copied is not None:
            return copied
    default = default_of(field)
    if default is not MISSING:
        return default
    if field.null_in(version):
        return None
    if field.struct is not None:
        return error_answer(field.struct, request, error, version)
    return _ZERO.get(field.kind, -1)


def _repeated(field: Field, request: Any) -> Any:
    """Return the value of the request's field that identifies the same entity, if any."""
    if field.entity is None:
        return getattr(request, field.name, None)
    name = None if request is None else entities_of(type(request)).get(field.entity)
    return None if name is None else getattr(request, name)


def _mirrored(field: Field, request: Any, error: KafkaError, version: int) -> list[Any]:
    """Return an element for each element of the request's list that this list mirrors."""
    if field.struct is None or field.tag is not None or not has_error_code(field.struct):
        return []
    for request_field in fields_of(type(request)):
        elements = getattr(request, request_field.name) if request_field.is_array else None
        if not elements:
            continue  # DeleteTopics has a list of names and a list of ids; one of them is empty
        if request_field.struct is not None and _keys(field.struct) & _keys(request_field.struct):
            return [error_answer(field.struct, element, error, version) for element in elements]
        if request_field.struct is None and request_field.kind in {"int32", "string"} and _keys(field.struct):
            return [_of_plain(field.struct, element, error, version) for element in elements]
    lists = [request_field for request_field in fields_of(type(request)) if request_field.is_array]
    if len(lists) != 1 or lists[0].struct is None or not _is_mirrored_by(lists[0].struct, field.struct):
        return []
    return [answer for element in getattr(request, lists[0].name) for answer in _mirrored(field, element, error, version)]


def _is_mirrored_by(request_type: type[Any], answered: type[Any]) -> bool:
    return any(each.struct is not None and _keys(each.struct) & _keys(answered) for each in fields_of(request_type) if each.is_array)


def _of_plain(struct_type: type[Any], element: Any, error: KafkaError, version: int) -> Any:
    """Return the answer to an element that is a plain partition index or name."""
    answer = error_answer(struct_type, None, error, version)
    for field in fields_of(struct_type):
        if field.entity is not None and (field.kind == "string") == isinstance(element, str):
            setattr(answer, field.name, element)
    return answer


def has_error_code(struct_type: type[Any]) -> bool:
    """Whether a struct, or a struct in it, has an error code."""
    return any(field.name in ERROR_CODES or (field.struct is not None and has_error_code(field.struct)) for field in fields_of(struct_type))


def _keys(struct_type: type[Any]) -> set[str]:
    """Return the fields and entities that identify an element."""
    return {*entities_of(struct_type), *(_KEYS & struct_type.declared_.keys())}
