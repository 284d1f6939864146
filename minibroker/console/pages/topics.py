"""Topics, and one topic: partitions, groups that read it, configs."""

from __future__ import annotations

from typing import Any

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.console.pace import paced, sorted_names
from minibroker.console.page import Page, Visit, rows_of
from minibroker.console.pages.configs import configs_of
from minibroker.console.pages.lags import groups_reading
from minibroker.security.acl import Operation, ResourceType

_STRIPS = 20  #: partitions of a topic on one page


async def topics(visit: Visit) -> dict[str, Any]:
    """List topics whose name contains the parameter `q`; `internal=1` lists those of the broker as well."""
    wanted, shows_internal = visit.text("q").lower(), visit.text("internal") == "1"
    all_topics = visit.host.cluster.topics
    names = []
    async for name in paced(await sorted_names(all_topics)):
        topic = all_topics.get(name)
        if topic is None or (topic.is_internal and not shows_internal) or wanted not in name.lower():
            continue
        if visit.may_see_topic(name):
            names.append(name)
    rows = rows_of(visit, names)
    items = [_row(visit, topic) async for name in paced(rows.items, every=1) if (topic := all_topics.get(name)) is not None]
    return {"q": visit.text("q"), "internal": shows_internal, **rows.to_json(), "topics": items, "command": "minibroker topics list"}


def _row(visit: Visit, topic: Topic) -> dict[str, Any]:
    logs = [log for each in topic.partitions if (log := each.online_log) is not None]
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "partition_count": len(topic.partitions),
        "offline_count": sum(not each.is_online for each in topic.partitions),
        "record_count": sum(log.log_end_offset - log.log_start_offset for log in logs),
        "size": sum(log.segments.size for log in logs) if visit.may_see_cluster else None,
        "is_internal": topic.is_internal,
        "open_transactions": sum(log.first_unstable_offset is not None for log in logs),
        "cleanup_policy": topic.config.get("cleanup.policy", ""),
    }


async def topic(visit: Visit) -> dict[str, Any]:
    """Show a topic: a strip of offsets for each partition, the groups that read it, and its configs."""
    found = visit.topic()
    rows = rows_of(visit, found.partitions, _STRIPS)
    strips = [await _strip(visit, each) for each in rows.items]
    may_read_configs = visit.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, found.name)
    return {
        "name": found.name,
        **_row(visit, found),
        **rows.to_json(),
        "partitions": strips,
        "groups": await groups_reading(visit, found),
        "configs": await configs_of(visit, ResourceType.TOPIC, found.name, only_changed=True) if may_read_configs else None,
        "may": {
            "write": not visit.is_read_only and visit.may(Operation.WRITE, ResourceType.TOPIC, found.name),
            "read": visit.may(Operation.READ, ResourceType.TOPIC, found.name),
            "configure": not visit.is_read_only and visit.may(Operation.ALTER_CONFIGS, ResourceType.TOPIC, found.name),
            "delete": not visit.is_read_only and visit.may(Operation.DELETE, ResourceType.TOPIC, found.name),
        },
        "command": f"minibroker topics describe {quoted(found.name)}",
    }


async def _strip(visit: Visit, partition: Partition) -> dict[str, Any]:
    services = visit.services
    leader = services.nodes.leader_of(partition)
    strip = await strip_for(visit, partition)
    return strip | {"leader": leader, "leader_epoch": partition.leader_epoch}


async def strip_for(visit: Visit, partition: Partition) -> dict[str, Any]:
    """Return the offsets of a partition, as far as the visitor may see them: transactions as a reader, sizes as DescribeLogDirs."""
    strip = await visit.host.strips.of(partition)
    if not strip["is_online"]:
        return strip
    if not visit.may(Operation.READ, ResourceType.TOPIC, partition.topic):
        strip = strip | {"log_end_offset": strip["high_watermark"], "ranges": [], "markers": []}
    return strip if visit.may_see_cluster else strip | {"size": None, "segments": []}


def quoted(word: str) -> str:
    """Return a word for a shell."""
    if word and all(letter.isascii() and (letter.isalnum() or letter in "._-/:@=,") for letter in word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


PAGES = (
    Page("/topics", "Topics", "topics.html", topics, live=("list",), interval_s=2.0),
    Page("/topic", "Topic", "topic.html", topic, live=("strips", "groups"), section="/topics"),
)
