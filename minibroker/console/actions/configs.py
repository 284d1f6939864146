"""Set and reset configs of topics, groups, this broker and the cluster while the broker runs."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.asking import check
from minibroker.console.forms import planned, text
from minibroker.console.page import Visit
from minibroker.console.pages.configs import NUMBERS, configs_of
from minibroker.console.rendering import url
from minibroker.console.values import visible
from minibroker.schemas import k44_incremental_alter_configs as schema
from minibroker.security.acl import ResourceType

#: of the form: the resource type, and the page that shows the configs
_KINDS: Final = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "broker": ResourceType.CLUSTER, "cluster": ResourceType.CLUSTER}
_OPERATIONS: Final = {"set": 0, "reset": 1, "append": 2, "subtract": 3}
_COLUMNS: Final = {"config": "Config", "value": "Value now", "source": "Set by", "new_value": "New value"}


async def preview(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Let the broker check a change, and return what it would replace."""
    config = text(body, "config").strip()
    await _alter(visit, body, validate_only=True)
    kind, name = _resource(visit, body)
    now = next((row for row in await configs_of(visit, kind, name, only_changed=False) if row["name"] == config), None)
    operation, value = text(body, "operation", "set"), visible(text(body, "value", ""))
    new = {"set": value, "reset": _below(now, text(body, "kind"))}.get(operation, f"{operation} {value}")
    is_hidden = now is not None and now["is_sensitive"]
    row = {
        "config": config,
        "value": "hidden" if is_hidden else now and now["value"],
        "source": now and now["source"],
        "new_value": "hidden" if is_hidden else new,
    }
    return planned("the broker accepts the change", _COLUMNS, [row])


def _below(now: dict[str, Any] | None, kind: str) -> str | None:
    """Return the value of a config without the one that a reset removes: the next of its synonyms."""
    synonyms = [] if now is None else now["synonyms"]
    source = {"topic": "topic", "group": "group", "broker": "broker, while it runs", "cluster": "cluster, while it runs"}[kind]
    left = [each for each in synonyms if each["source"] != source]
    return None if not left or left[0]["value"] is None else visible(left[0]["value"])


async def alter(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Change a config.

    Fields: `kind` (topic, group, broker, cluster), `name` of the topic or group, `config`, `operation` (set, reset, append, subtract)
    and `value`.
    """
    await _alter(visit, body, validate_only=False)
    kind, config = text(body, "kind"), text(body, "config").strip()
    pages = {"topic": "/topic", "group": "/group"}
    name = text(body, "name", "")
    address = url("/config") if kind not in pages else url("/topic", name=name) if kind == "topic" else url("/group", id=name)
    done = {"set": "is set", "reset": "has its default", "append": "is extended", "subtract": "is shortened"}
    return {"message": f"{config} {done[text(body, 'operation', 'set')]}", "go": address}


def _resource(visit: Visit, body: dict[str, Any]) -> tuple[ResourceType, str]:
    kind = text(body, "kind")
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind[:30]!r}")
    if kind == "broker":
        return _KINDS[kind], str(visit.services.nodes.own.node_id)
    return _KINDS[kind], "" if kind == "cluster" else text(body, "name")


async def _alter(visit: Visit, body: dict[str, Any], *, validate_only: bool) -> None:
    operation, value = text(body, "operation", "set"), text(body, "value", "")
    if operation not in _OPERATIONS:
        raise ValueError(f"operation must be one of {', '.join(_OPERATIONS)}, got {operation[:30]!r}")
    kind, name = _resource(visit, body)
    change = schema.Config(
        name=text(body, "config").strip(), config_operation=_OPERATIONS[operation], value=None if operation == "reset" else value
    )
    resource = schema.Resource(resource_type=NUMBERS[kind], resource_name=name, configs=[change])
    response = await visit.ask(schema.Request(resources=[resource], validate_only=validate_only))
    check(response.responses[0].error_code, response.responses[0].error_message)
