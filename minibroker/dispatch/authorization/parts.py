"""Serve a request without its refused parts, and join their errors with the handler's answer."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final
from uuid import UUID

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after, refusal
from minibroker.dispatch.partition_split import ErrorOf, join, own_error_code, shape_of, split, topic_of
from minibroker.dispatch.registry import Handler
from minibroker.errors import NONE, GroupAuthorizationFailed, KafkaError
from minibroker.schemas import k47_offset_delete, k92_delete_share_group_offsets
from minibroker.wire.schema import NIL_UUID, TOPIC_ID, TOPIC_NAME, entities_of, fields_of, replace

#: The coordinator checks the group first, also if all topics are refused.
_OF_A_GROUP: Final = frozenset({k47_offset_delete.API_KEY, k92_delete_share_group_offsets.API_KEY})


def serve_topics(
    handler: Handler, ctx: RequestContext, request: Any, error_of: ErrorOf, refused: Callable[[Any], Any] | None = None
) -> Any:
    """Serve the topics for which `error_of` has no error.

    Args:
        handler: The handler of the API.
        ctx: The context of the request.
        request: A request that names topics, perhaps in lists of groups.
        error_of: Returns the error of a topic, whether it exists or not; None if it is allowed.
        refused: Changes the answer to the refused part.
    """
    if not _names_refused(request, error_of):
        return handler.handle(ctx, request)
    found = split(handler.api, ctx.api_version, request, error_of)
    answer = found.refused if refused is None else refused(found.refused)
    rest = found.rest
    if rest is None:
        if handler.api.key not in _OF_A_GROUP:
            return answer
        rest = replace(request, topics=[])
    return after(handler.handle(ctx, rest), lambda response: response if _has_failed(response) else join(response, answer))


def _has_failed(response: Any) -> bool:
    """Return whether an answer as a whole has an error, besides those of its parts."""
    code = own_error_code(type(response))
    return code is not None and getattr(response, code) != NONE


def names_only(request: Any, names: Container[str | UUID]) -> bool:
    """Return whether all topics of a request are among these names and ids.

    False for requests with other lists of topics.
    """
    request_type = type(request)
    if request_type not in _TOPIC_FIELDS:
        _TOPIC_FIELDS[request_type] = _topic_fields(request_type)
    fields = _TOPIC_FIELDS[request_type]
    if fields is None:
        return False
    topics, name, topic_id = fields
    for element in getattr(request, topics):
        key = getattr(element, name)
        if (key if key or topic_id is None else getattr(element, topic_id)) not in names:
            return False
    return True


_TOPIC_FIELDS: Final[dict[type[Any], tuple[str, str, str | None] | None]] = {}


def _topic_fields(request_type: type[Any]) -> tuple[str, str, str | None] | None:
    """Return the only list of topics in a request, and the fields of their names and ids."""
    shape = shape_of(request_type)
    if shape.groups or shape.bare or len(shape.topics) != 1:
        return None
    (field,) = [each for each in fields_of(request_type) if each.name == shape.topics[0]]
    entities = {} if field.struct is None else entities_of(field.struct)
    name = entities.get(TOPIC_NAME) or entities.get(TOPIC_ID)
    is_config = field.struct is None or "resource_type" in field.struct.declared_
    return None if name is None or is_config else (field.name, name, entities.get(TOPIC_ID))


def _names_refused(request: Any, error_of: ErrorOf) -> bool:
    """Return whether a request, or an element of one of its lists, names a refused topic.

    Checks all topics, for the audit log.
    """
    shape = shape_of(type(request))
    is_refused = False
    for name in shape.topics:
        for element in getattr(request, name) or ():
            topic = topic_of(element)
            if topic is not None and error_of(*topic, None) is not None:
                is_refused = True
    for name in shape.bare:
        for topic_name in getattr(request, name) or ():
            if error_of(topic_name, NIL_UUID, None) is not None:
                is_refused = True
    for name in shape.groups:
        for element in getattr(request, name) or ():
            if _names_refused(element, error_of):
                is_refused = True
    return is_refused


def serve_groups(handler: Handler, ctx: RequestContext, request: Any, *, keys: str, results: str, is_allowed: Callable[[str], bool]) -> Any:
    """Serve the allowed groups in the list `keys`.

    Other groups are GROUP_AUTHORIZATION_FAILED in the list `results`.
    """

    def error_of(name: str) -> KafkaError | None:
        return None if is_allowed(name) else GroupAuthorizationFailed()

    return serve_elements(handler, ctx, request, keys=keys, results=results, error_of=error_of)


def serve_elements(
    handler: Handler, ctx: RequestContext, request: Any, *, keys: str, results: str, error_of: Callable[[Any], KafkaError | None]
) -> Any:
    """Serve the elements of the list `keys` for which `error_of` has no error.

    Other elements have their errors in the list `results`.
    """
    elements = getattr(request, keys)
    allowed = []
    refused: dict[str, list[Any]] = {}
    errors: dict[str, KafkaError] = {}
    for each in elements:
        error = error_of(each)
        if error is None:
            allowed.append(each)
        else:
            refused.setdefault(error.name, []).append(each)
            errors[error.name] = error
    if not refused:
        return handler.handle(ctx, request)
    answers = [refusal(handler, ctx, replace(request, **{keys: part}), errors[name]) for name, part in refused.items()]
    refused_results = [each for answer in answers for each in getattr(answer, results)]
    if not allowed:
        return replace(answers[0], **{results: refused_results})
    return after(
        handler.handle(ctx, replace(request, **{keys: allowed})),
        lambda response: replace(response, **{results: [*getattr(response, results), *refused_results]}),
    )
