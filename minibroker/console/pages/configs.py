"""Configs as DescribeConfigs reports them: of the broker, of topics, of groups."""

from __future__ import annotations

import re
from typing import Any, Final

from minibroker.config import definition
from minibroker.console.asking import check
from minibroker.console.page import Page, Visit
from minibroker.console.values import visible
from minibroker.schemas import k32_describe_configs as schema
from minibroker.security.acl import Operation, ResourceType

_MARKUP: Final = re.compile(r"</?(?:a|b|br|code|em|i|li|ol|p|pre|strong|ul)\b[^<>]*>")  #: in Kafka's descriptions
#: Kafka numbers resources of configs otherwise than those of access control.
NUMBERS: Final = {ResourceType.TOPIC: 2, ResourceType.CLUSTER: 4, ResourceType.GROUP: 32}
_STATIC: Final = "file, environment or option"
_SOURCES: Final = {
    definition.SOURCE_DYNAMIC_TOPIC: "topic",
    definition.SOURCE_DYNAMIC_BROKER: "broker, while it runs",
    definition.SOURCE_DYNAMIC_DEFAULT_BROKER: "cluster, while it runs",
    definition.SOURCE_STATIC_BROKER: _STATIC,
    definition.SOURCE_DEFAULT: "default",
    definition.SOURCE_GROUP: "group",
}


def plain_text(documentation: str) -> str:
    """Return a description of Kafka without its HTML."""
    return _MARKUP.sub("", documentation)


async def configs_of(visit: Visit, kind: ResourceType, name: str, *, only_changed: bool) -> list[dict[str, Any]]:
    """Return the configs of a resource. Passwords are hidden by the broker."""
    resource = schema.Resource(resource_type=NUMBERS[kind], resource_name=name, configuration_keys=None)
    response = await visit.ask(schema.Request(resources=[resource], include_synonyms=True, include_documentation=not only_changed))
    result = response.results[0]
    check(result.error_code, result.error_message)
    rows = []
    for each in result.configs:
        if only_changed and each.config_source == definition.SOURCE_DEFAULT:
            continue
        rows.append(
            {
                "name": each.name,
                "value": None if each.value is None else visible(each.value),
                "source": _SOURCES.get(each.config_source, str(each.config_source)),
                "is_default": each.config_source == definition.SOURCE_DEFAULT,
                "is_sensitive": each.is_sensitive,
                "is_read_only": each.read_only,
                "synonyms": [
                    {"name": other.name, "value": other.value, "source": _SOURCES.get(other.source, str(other.source))}
                    for other in each.synonyms
                ],
                "documentation": plain_text(each.documentation or ""),
            }
        )
    return rows


async def config(visit: Visit) -> dict[str, Any]:
    """Show the properties of the broker: those that differ from their defaults, or all with `all=1`."""
    shows_all, wanted = visit.text("all") == "1", visit.text("q").lower()
    node_id = visit.services.nodes.own.node_id
    rows = await configs_of(visit, ResourceType.CLUSTER, str(node_id), only_changed=False)
    chosen = [row for row in rows if (shows_all or not row["is_default"]) and wanted in row["name"]]
    for row in chosen:
        for each in (row, *row["synonyms"]):
            if each["source"] == _STATIC:
                each["source"] = visible(getattr(visit.services.config.static.get(each["name"]), "origin", "")) or _STATIC
    return {
        "q": visit.text("q"),
        "all": shows_all,
        "configs": chosen,
        "total": len(rows),
        "unknown": sorted(visible(name) for name in visit.services.config.unknown),
        "may_alter": not visit.is_read_only and visit.may(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
        "node_id": node_id,
        "command": f"minibroker configs describe brokers {node_id}{' --all' if shows_all else ''}",
    }


PAGES = (Page("/config", "Configuration", "config.html", config, needs=(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)),)
