"""Print a report as text: per topic its partitions, days, longest gaps and producers; then groups and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tabulate import tabulate

from minibroker.spark.progress import size_text
from minibroker.spark.report.results import ReportValues, TopicInfo, time_text

MOST_BUCKETS = 31
MOST_ROWS = 20  #: of gaps, and of producers
REASONS = ("control", "aborted", "compacted", "missing")  #: why an offset has no record
#: columns that are left out if all cells are empty, and those that are left out if all are 0
OPTIONAL = frozenset({"leader", "on disk", "state", "type", "open since offset", "transactional id", "open in"})
OPTIONAL_COUNTS = frozenset({*REASONS, "gaps"})

Row = Sequence[Any]


def report_text(report: ReportValues) -> str:
    """Return the text, with empty lines between sections."""
    scanned = f"{report.isolation_level}, records by {report.bucket} in UTC" if report.is_scanned else "records were not counted"
    cluster = f"cluster {report.cluster_id}, " if report.cluster_id else ""
    parts = [f"{report.source}, {cluster}{time_text(report.taken_at)[:19]}Z, {scanned}"]
    for topic in report.topics:
        parts += _topic(report, topic)
    parts += _groups(report)
    parts += _transactions(report)
    parts += [f"Note: {note}" for note in report.notes]
    return "\n\n".join(parts)


def _topic(report: ReportValues, topic: TopicInfo) -> list[str]:
    facts = [f"{len(topic.partitions):,} partition{'s' * (len(topic.partitions) != 1)}"]
    if topic.topic_id:
        facts.append(f"topic id {topic.topic_id}")
    if topic.contents:
        facts.insert(
            0, f"{sum(each.records for each in topic.contents):,} records of {size_text(sum(each.bytes for each in topic.contents))}"
        )
    parts = [f"{topic.topic}: {', '.join(facts)}\n{_partitions(topic)}"]
    more = [_times(topic), _buckets(topic, report.bucket), _gaps(topic), _producers(topic)]
    return parts + [text for text in more if text]


def _partitions(topic: TopicInfo) -> str:
    headers = ["partition", "leader", "log start", "last stable", "high watermark", "on disk"]
    if topic.contents:
        headers += ["records", "bytes", *REASONS, "gaps", "first record", "last record"]
    rows: list[list[Any]] = []
    for each in topic.partitions:
        size = None if each.size is None else size_text(each.size)
        row: list[Any] = [each.partition, each.leader, each.log_start_offset, each.last_stable_offset, each.high_watermark, size]
        if each.contents:
            found = each.contents
            row += [found.records, size_text(found.bytes), found.control, found.aborted, found.compacted, found.missing, found.gap_count]
            row += [_second(found.first_timestamp), _second(found.last_timestamp)]
        rows.append(row)
    return _table(headers, rows)


def _times(topic: TopicInfo) -> str:
    rows = [
        [each.partition, time_text(found.timestamp), found.offset, _time(found.found_timestamp)]
        for each in topic.partitions
        for found in each.offsets_by_timestamp
    ]
    return _table(["partition", "requested time", "offset", "timestamp"], rows)


def _buckets(topic: TopicInfo, bucket: str) -> str:
    """Return the days of all partitions; the last ones if there are many."""
    found = list(topic.by_bucket().items())
    hidden = found[:-MOST_BUCKETS]
    rows: list[Row] = [[start or "no timestamp", records, size_text(size)] for start, (records, size) in found[-MOST_BUCKETS:]]
    if hidden:
        before = sum(counts[0] for _, counts in hidden), sum(counts[1] for _, counts in hidden)
        rows.insert(0, [f"{len(hidden)} {bucket}s before", before[0], size_text(before[1])])
    return _table([bucket, "records", "bytes"], rows)


def _gaps(topic: TopicInfo) -> str:
    """Return the longest gaps of all partitions."""
    found = [(each.partition, gap) for each in topic.partitions if each.contents for gap in each.contents.gaps]
    chosen = sorted(sorted(found, key=lambda each: -each[1].size)[:MOST_ROWS], key=lambda each: (each[0], each[1].first_offset))
    rows = [
        [number, gap.first_offset, gap.last_offset, gap.size, gap.control, gap.aborted, gap.compacted, gap.missing]
        for number, gap in chosen
    ]
    text = _table(["partition", "gap from", "to", "offsets", *REASONS], rows)
    total = sum(each.gap_count for each in topic.contents)
    return f"{text}\n(the longest of {total:,} gaps)" if text and total > len(rows) else text


def _producers(topic: TopicInfo) -> str:
    """Return the producers with an open transaction, and those that wrote last."""
    found = [(each.partition, producer) for each in topic.partitions for producer in each.producers]
    found.sort(key=lambda each: (each[1].current_txn_start_offset is None, -(each[1].last_timestamp or 0)))
    rows = [
        [
            number,
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            _time(producer.last_timestamp),
            producer.current_txn_start_offset,
            producer.transactional_id,
        ]
        for number, producer in sorted(found[:MOST_ROWS], key=lambda each: (each[0], each[1].producer_id))
    ]
    text = _table(["partition", "producer id", "epoch", "last sequence", "last batch", "open since offset", "transactional id"], rows)
    return f"{text}\n(and {len(found) - len(rows):,} more)" if len(found) > len(rows) else text


def _groups(report: ReportValues) -> list[str]:
    rows: list[Row] = []
    for group, offsets in groupby(report.groups, key=lambda each: each.group):
        rows += [[group, each.type, each.state, each.topic, each.partition, each.committed_offset, each.lag] for each in offsets]
    text = _table(["group", "type", "state", "topic", "partition", "committed", "lag"], rows)
    return [text] if text else []


def _transactions(report: ReportValues) -> list[str]:
    rows = [
        [
            each.transactional_id,
            each.state,
            each.producer_id,
            each.producer_epoch,
            each.timeout_ms,
            _time(each.start_timestamp),
            ",".join(each.partitions) or None,
        ]
        for each in report.transactions
    ]
    text = _table(["transactional id", "state", "producer id", "epoch", "timeout ms", "last start", "open in"], rows)
    return [text] if text else []


def _table(headers: Sequence[str], rows: Iterable[Row]) -> str:
    """Return a table with headers in capitals and numbers aligned right; empty without rows."""
    found = list(rows)
    kept = [index for index, name in enumerate(headers) if _is_shown(name, [row[index] for row in found])]
    if not found:
        return ""
    is_number = [all(isinstance(row[index], int | None) for row in found) or headers[index] in {"bytes", "on disk"} for index in kept]
    cells = [[_cell(row[index]) for index in kept] for row in found]
    text = tabulate(
        cells,
        [headers[index].upper() for index in kept],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right" if number else "left" for number in is_number],
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def _is_shown(name: str, values: Sequence[Any]) -> bool:
    if name in OPTIONAL_COUNTS:
        return any(values)
    return name not in OPTIONAL or any(value is not None for value in values)


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _second(timestamp: int | None) -> str | None:
    return None if timestamp is None else f"{time_text(timestamp)[:19]}Z"


def _time(timestamp: int | None) -> str | None:
    return None if timestamp is None else time_text(timestamp)
