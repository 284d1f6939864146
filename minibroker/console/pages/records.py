"""Records of a topic: the newest ones, or from an offset or a time on, with filters. One record as a whole, for a download."""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.console.filters import Filter, FilterError, parse_json_path
from minibroker.console.page import NotFoundError, Page, QueryError, Visit
from minibroker.console.pages.topics import quoted
from minibroker.console.reading import batches_of
from minibroker.console.scanning import Scan, order_of
from minibroker.console.searching import Search, parse_cursor
from minibroker.console.times import parse_time
from minibroker.records.any_format import decode_records
from minibroker.records.record import Record
from minibroker.schemas import k02_list_offsets
from minibroker.security.acl import Operation, ResourceType

_COUNT: Final = 25  #: records of a page
_COUNT_MAX: Final = 200
_GAP_MAX: Final = 1_000  #: offsets without a record that a link leads over
_PARTITIONS_MAX: Final = 200  #: of a topic that are read together

STARTS: Final = ("newest", "oldest", "offset", "time")


async def records(visit: Visit) -> dict[str, Any]:
    """Show records of one partition or of all. A search that takes too long says how to continue."""
    topic = visit.topic("topic")
    visit.visitor.check(Operation.READ, ResourceType.TOPIC, topic.name)
    start = visit.text("from", "newest")
    if start not in STARTS:
        raise QueryError(f"from must be one of {', '.join(STARTS)}, got {start!r}")
    wanted, count = filter_of(visit), visit.number("count", _COUNT, least=1, most=_COUNT_MAX)
    partitions = partitions_of(visit, topic)
    search = Search(visit.host.reader, wanted, count, is_newest=start == "newest" and wanted.is_empty, with_schema=visit.with_schema)
    positions = await _positions(visit, topic, partitions, start, count, is_search=not wanted.is_empty)
    await (search.backwards if start == "newest" and not wanted.is_empty else search.forwards)(partitions, positions)
    await visit.decode(search.rows, topic.name)
    rows = sorted(search.rows, key=order_of, reverse=start == "newest")
    return {
        "topic": topic.name,
        "partition": visit.text("partition"),
        "partition_count": len(topic.partitions),
        "start": start,
        "offset": visit.text("offset"),
        "time": visit.text("time"),
        "q": wanted.text,
        "key": visit.text("key"),
        "json": visit.text("json"),
        "until": visit.text("until"),
        "count": count,
        "is_filtered": not wanted.is_empty,
        "rows": rows,
        "record_count": search.record_count,
        "is_complete": not search.left,
        "cursor": search.cursor,
        "older": _older(partitions, rows, start) if wanted.is_empty else None,
        "may_write": not visit.is_read_only and visit.may(Operation.WRITE, ResourceType.TOPIC, topic.name),
        "command": _command(topic.name, visit, start),
    }


def filter_of(visit: Visit) -> Filter:
    """Return the filter in the address. Raises QueryError."""
    path, key = visit.text("json").strip(), visit.text("key")
    try:
        return Filter(
            text=visit.text("q"),
            key=key or None,
            json_path=parse_json_path(path)._replace(schemas=None if visit.host.decoder is None else {}) if path else None,
            from_ms=parse_time(visit.text("time"), visit.host.now_ms()) if visit.text("from") == "time" else None,
            until_ms=parse_time(visit.text("until"), visit.host.now_ms()) if visit.text("until") else None,
        )
    except (FilterError, ValueError) as error:
        raise QueryError(str(error)) from None


def partitions_of(visit: Visit, topic: Topic) -> list[Partition]:
    """Return the partitions in the address."""
    if visit.text("partition"):
        return [visit.partition(topic)]
    return topic.partitions[:_PARTITIONS_MAX]


async def _positions(visit: Visit, topic: Topic, partitions: list[Partition], start: str, count: int, *, is_search: bool) -> dict[int, int]:
    """Return the first offset to read, by partition; of a search for the newest records, the offset after the last one."""
    cursor = visit.text("cursor")
    if cursor:
        try:
            return parse_cursor(cursor)
        except ValueError:
            raise QueryError("the cursor does not belong to this page: search again") from None
    logs = {each.index: log for each in partitions if (log := each.online_log) is not None}
    if start == "newest" and is_search:
        return {index: log.log_end_offset for index, log in logs.items()}
    if start == "newest":
        return {index: max(log.log_start_offset, log.log_end_offset - count) for index, log in logs.items()}
    if start == "offset":
        offset = visit.number("offset", 0)
        return {index: max(log.log_start_offset, offset) for index, log in logs.items()}
    if start == "time":
        moment = parse_time(visit.text("time"), visit.host.now_ms())
        return await _at_time(visit, topic, list(logs), moment)
    return {index: log.log_start_offset for index, log in logs.items()}


async def _at_time(visit: Visit, topic: Topic, indexes: list[int], moment_ms: int) -> dict[int, int]:
    asked = [k02_list_offsets.Partition(partition_index=index, timestamp=moment_ms) for index in indexes]
    request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name=topic.name, partitions=asked)])
    response = await visit.ask(request)
    return {each.partition_index: each.offset for each in response.topics[0].partitions if not each.error_code and each.offset >= 0}


def _older(partitions: list[Partition], rows: list[dict[str, Any]], start: str) -> dict[str, int] | None:
    """Return where the records before these are; only one partition has a before."""
    if len(partitions) != 1 or not rows or start == "oldest":
        return None
    log, first = partitions[0].online_log, min(row["offset"] for row in rows)
    if log is None or first <= log.log_start_offset:
        return None
    return {"offset": max(log.log_start_offset, first - len(rows))}


def _command(topic: str, visit: Visit, start: str) -> str:
    words = ["minibroker consume", quoted(topic)]
    if visit.text("partition"):
        words.append(f"-p {visit.number('partition')}")
    if start == "offset":
        words.append(f"--from {visit.number('offset', 0)}")
    elif start == "time":
        words.append(f"--from @{parse_time(visit.text('time'), visit.host.now_ms())}")
    else:
        words.append("--from -25" if start == "newest" else "--from earliest")
    return " ".join([*words, "--exit -o jsonl", *_registry_words(visit)])


def _registry_words(visit: Visit) -> list[str]:
    """Return the option with which a command decodes what the page decodes."""
    if visit.host.decoder is None:
        return []
    return ["-r", (visit.host.decoder.url or visit.host.registry_url()).replace("127.0.0.1", "localhost")]


async def record(visit: Visit) -> dict[str, Any]:
    """Show one record."""
    topic = visit.topic("topic")
    visit.visitor.check(Operation.READ, ResourceType.TOPIC, topic.name)
    partition, offset = visit.partition(topic), visit.number("offset")
    found = await visit.host.reader.read_rows(partition, offset, 2)
    if not found.rows or found.rows[0]["offset"] != offset:
        raise NotFoundError(f"there is no record at offset {offset} of {topic.name}-{partition.index}")
    row, *after = found.rows
    await visit.decode([row], topic.name)
    return {
        "topic": topic.name,
        "row": row,
        "has_schemas": visit.host.registry is not None,
        "previous": await _before(visit, partition, offset),
        "next": after[0]["offset"] if after else offset + 1 if offset + 1 < partition.log.log_end_offset else None,
        "command": " ".join(
            [f"minibroker consume {quoted(topic.name)} -p {partition.index} --from {offset} -c 1 -o jsonl", *_registry_words(visit)]
        ),
    }


async def _before(visit: Visit, partition: Partition, offset: int) -> int | None:
    """Return the offset of the record before another one. None if there is none, or if compaction has removed too many in between."""
    start = partition.log.log_start_offset
    for first in (offset - 1, max(start, offset - _GAP_MAX)):
        if first < start:
            break
        found, _ = await visit.host.reader.find_rows(partition, Scan(first, 1, end_offset=offset, takes_last=True))
        if found.rows and found.next_offset >= offset:
            return int(found.rows[0]["offset"])
    return None


async def whole_record(visit: Visit) -> Record:
    """Return one record with all its bytes, for a download."""
    topic = visit.topic("topic")
    visit.visitor.check(Operation.READ, ResourceType.TOPIC, topic.name)
    partition, offset = visit.partition(topic), visit.number("offset")
    data = await visit.host.reader.read_bytes(partition, offset, 1)
    record = await visit.host.reader.in_thread(_find_record, data, offset)
    if record is None:
        raise NotFoundError(f"there is no record at offset {offset} of {topic.name}-{partition.index}")
    return record


def _find_record(data: bytes, offset: int) -> Record | None:
    return next((each for batch in batches_of(data) for each in decode_records(batch) if each.offset == offset), None)


PAGES = (
    Page("/records", "Records", "records.html", records, section="/topics"),
    Page("/record", "Record", "record.html", record, section="/topics"),
)
