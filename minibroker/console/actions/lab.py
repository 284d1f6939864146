"""Operations of the lab, by name."""

from __future__ import annotations

import json
from typing import Any, Final

from minibroker.console.forms import text
from minibroker.console.page import Visit
from minibroker.security.acl import Operation, ResourceType

_NUMBERS: Final = {"partition", "id", "node", "to", "ms"}


async def execute(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Execute the operation `operation` with `arguments`, an object; or with the other fields of a form as its arguments."""
    visit.visitor.check(Operation.ALTER, ResourceType.CLUSTER)
    lab = visit.host.lab
    if lab is None:
        raise ValueError("this broker has no lab: start it with --lab-port")
    name = text(body, "operation")
    arguments = body.get("arguments")
    if arguments is None:
        arguments = {each: _value(each, value) for each, value in body.items() if each != "operation" and value != ""}
    if not isinstance(arguments, dict):
        raise ValueError("arguments must be a JSON object")  # noqa: TRY004  the visitor's mistake
    result = await lab.execute(name, arguments)
    return {"message": f"{name} done", "result": result if isinstance(result, dict | list | int | str | None) else str(result)}


def _value(name: str, value: Any) -> Any:
    """Return a field of a form as the operation wants it."""
    if not isinstance(value, str):
        return value
    if name == "rule":
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the rule is not JSON: {error}") from None
    if name in _NUMBERS and value.lstrip("-").isdecimal():
        return int(value)
    return {"true": True, "on": True, "false": False}.get(value, value)
