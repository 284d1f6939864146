"""What the forms of the console do. Each action is a request to the broker with the rights of the visitor, or an operation of the lab.

An action gets a JSON object and returns one: `message` is shown, `go` is the address of the page to open next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from minibroker.console.actions import access, configs, groups, lab, producing, quotas, topics
from minibroker.console.page import Visit


class Action(NamedTuple):
    """One action."""

    function: Callable[[Visit, dict[str, Any]], Awaitable[dict[str, Any]]]  #: raises ValueError or KafkaError
    changes: bool = True  #: a read-only console refuses it


ACTIONS: Final[dict[str, Action]] = {
    "topics/create": Action(topics.create),
    "topics/delete": Action(topics.delete),
    "topics/preview-delete-records": Action(topics.preview_delete_records, changes=False),
    "topics/delete-records": Action(topics.delete_records),
    "configs/preview": Action(configs.preview, changes=False),
    "configs/alter": Action(configs.alter),
    "produce": Action(producing.produce),
    "groups/preview-reset": Action(groups.preview_reset, changes=False),
    "groups/reset": Action(groups.reset),
    "groups/delete-offsets": Action(groups.delete_offsets),
    "groups/delete": Action(groups.delete),
    "acls/preview-add": Action(access.preview_add, changes=False),
    "acls/add": Action(access.add),
    "acls/preview-remove": Action(access.preview_remove, changes=False),
    "acls/remove": Action(access.remove),
    "quotas/alter": Action(quotas.alter),
    "lab": Action(lab.execute),
}
