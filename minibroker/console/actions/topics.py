"""Create, delete, empty and configure topics."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.asking import check
from minibroker.console.fields import number, text
from minibroker.console.page import Visit
from minibroker.console.rendering import url
from minibroker.schemas import k19_create_topics, k20_delete_topics, k21_delete_records, k44_incremental_alter_configs
from minibroker.security.acl import Operation, ResourceType

_TIMEOUT_MS: Final = 30_000
_TOPIC: Final = 2  #: the resource type in requests about configs
_SET: Final = 0
_DELETE: Final = 1


async def create(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Create a topic: `name`, `partitions`, `replication_factor`, and `configs` with a line for each."""
    name = text(body, "name").strip()
    topic = k19_create_topics.Topic(
        name=name,
        num_partitions=number(body, "partitions", -1, least=-1, most=100_000),
        replication_factor=number(body, "replication_factor", -1, least=-1, most=32_767),
        assignments=[],
        configs=[k19_create_topics.Config(name=key, value=value) for key, value in _lines(text(body, "configs", ""))],
    )
    response = await visit.ask(k19_create_topics.Request(topics=[topic], timeout_ms=_TIMEOUT_MS))
    check(response.topics[0].error_code, response.topics[0].error_message)
    return {"message": f"created topic {name}", "go": url("/topic", name=name)}


def _lines(lines: str) -> list[tuple[str, str]]:
    found = []
    for line in lines.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"configs: {line[:60]!r} must be NAME=VALUE")
            found.append((name.strip(), value.strip()))
    return found


async def delete(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the topic `name`."""
    name = text(body, "name")
    response = await visit.ask(k20_delete_topics.Request(topic_names=[name], timeout_ms=_TIMEOUT_MS), 5)
    check(response.responses[0].error_code, response.responses[0].error_message)
    return {"message": f"deleted topic {name}", "go": "/topics"}


async def empty(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete all records of the topic `name`."""
    name = text(body, "name")
    visit.visitor.check(Operation.DELETE, ResourceType.TOPIC, name)  # first: otherwise the error shows which topics exist
    partitions = visit.host.cluster.topic(name).partitions
    asked = [k21_delete_records.Partition(partition_index=each.index, offset=-1) for each in partitions]
    topic = k21_delete_records.Topic(name=name, partitions=asked)
    response = await visit.ask(k21_delete_records.Request(topics=[topic], timeout_ms=_TIMEOUT_MS))
    for result in response.topics[0].partitions:
        check(result.error_code)
    return {"message": f"deleted the records of {name}"}


async def configure(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Set the config `config` of the topic `name` to `value`; without a value, to its default."""
    name, config, value = text(body, "name"), text(body, "config").strip(), text(body, "value", "")
    change = k44_incremental_alter_configs.Config(name=config, config_operation=_SET if value else _DELETE, value=value or None)
    resource = k44_incremental_alter_configs.Resource(resource_type=_TOPIC, resource_name=name, configs=[change])
    response = await visit.ask(k44_incremental_alter_configs.Request(resources=[resource], validate_only=False))
    check(response.responses[0].error_code, response.responses[0].error_message)
    return {"message": f"{config} is {value!r}" if value else f"{config} has its default", "go": url("/topic", name=name)}
