"""What the forms of the console do. Each action is a request to the broker with the rights of the visitor, or an operation of the lab.

An action gets a JSON object and returns one: `message` is shown, `go` is the address of the page to open next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from minibroker.console.actions import groups, lab, producing, topics
from minibroker.console.page import Visit


class Action(NamedTuple):
    """One action."""

    function: Callable[[Visit, dict[str, Any]], Awaitable[dict[str, Any]]]  #: raises ValueError or KafkaError
    changes: bool = True  #: a read-only console refuses it


ACTIONS: Final[dict[str, Action]] = {
    "topics/create": Action(topics.create),
    "topics/delete": Action(topics.delete),
    "topics/empty": Action(topics.empty),
    "topics/configure": Action(topics.configure),
    "produce": Action(producing.produce),
    "groups/preview-reset": Action(groups.preview_reset, changes=False),
    "groups/reset": Action(groups.reset),
    "groups/delete": Action(groups.delete),
    "lab": Action(lab.execute),
}
