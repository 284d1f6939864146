"""The shared code of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: each group has its own result or error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minibroker.cluster.topic_rules import GROUP_OPERATIONS, NOT_ASKED_FOR
from minibroker.errors import InvalidGroupId, KafkaError

G = TypeVar("G")
R = TypeVar("R")


def describe_each(request: Any, describe: Callable[[str, int], G], rejected: Callable[[str, KafkaError], G]) -> list[G]:
    """Return a result for each group.

    `describe` gets a group id and the authorized operations, and may raise KafkaError.
    """
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR

    def result(group_id: str) -> G:
        try:
            if not group_id:
                raise InvalidGroupId
            return describe(group_id, operations)
        except KafkaError as error:
            return rejected(group_id, error)

    return [result(group_id) for group_id in request.group_ids]


def reject_each(
    response: Callable[..., R], rejected: Callable[[str, KafkaError], object], _ctx: object, request: Any, error: KafkaError
) -> R:
    """Return `error` for each group.

    An API uses it as `on_error`, with `response` (the schema's type) and `rejected` bound.
    """
    return response(groups=[rejected(group_id, error) for group_id in request.group_ids])


def rejected_group(group: Callable[..., G], group_id: str, error: KafkaError, **fields: Any) -> G:
    """Return a result with an error.

    `group` is the schema's type of results, `fields` are fields that only some of these APIs have.
    """
    fields = {"error_message": error.given_message, **fields}
    return group(error_code=error.code, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0, members=[], **fields)
