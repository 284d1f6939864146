"""The manifest of an archive: what each run archived, as JSON files that never change.

    _minibroker/archive.json                        the Identity of the archive
    _minibroker/runs/00000000000000000007.json      a Run; the run is part of the archive once this file exists

A Run has what it archived (`ranges`, `gaps`, `files`), and everything that the archive has after it (`topics`). The
newest run is enough to know where to continue.

A topic that was deleted and recreated is another topic of the same name: its offsets start at 0 again. Its
records go to another folder (`topic=flights@2`), and the manifest tells both apart by their topic ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange, merged

FORMAT_VERSION = 1
PARQUET = "parquet"
DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties of an archive that its first run sets."""

    archive_id: str
    format: str  #: PARQUET or DELTA
    isolation_level: str


class ArchivedRange(NamedTuple):
    """Offsets that a run archived: all records of the source with start_offset <= offset < end_offset."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    record_count: int
    first_offset: int | None  #: of the records; None without records (markers, aborted transactions, compaction)
    last_offset: int | None


class Gap(NamedTuple):
    """Offsets that were deleted before they were archived, which the user has allowed."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


class ArchivedFile(NamedTuple):
    """A file: its `path` in the archive, and its `staged` path in the staging folder's data before it was published."""

    path: str
    staged: str
    record_count: int
    size: int  #: bytes


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """One topic with one id, and all its archived ranges; `ranges` include allowed gaps."""

    topic: str
    topic_id: str  #: "" if unknown
    cluster_id: str  #: "" if unknown
    folder: str  #: topic=FOLDER
    ranges: tuple[PartitionRange, ...] = ()  #: merged; an empty range is of a partition without records up to there

    def reached(self, partition: int) -> int | None:
        """Return the offset after the last archived one; None if there is none."""
        return max((each.end_offset for each in self.ranges if each.partition == partition), default=None)

    def with_ranges(self, more: Sequence[PartitionRange]) -> ArchivedTopic:
        """Return the topic with the ranges of one more run; an empty range counts if its partition has no other."""
        found = merged([*self.ranges, *more])
        partitions = {each.partition for each in found}
        empty = {each.partition: each for each in (*self.ranges, *more) if each.size == 0 and each.partition not in partitions}
        return replace(self, ranges=tuple(sorted((*found, *empty.values()))))


class StreamPlace(NamedTuple):
    """The micro-batch of a streaming query that a run archives."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Run:
    """A commit. `topics` are all of the archive with this run, oldest first; of one name the last is the current one."""

    number: int
    run_id: str
    source: str
    isolation_level: str
    started_ms: int
    committed_ms: int
    ranges: tuple[ArchivedRange, ...]
    gaps: tuple[Gap, ...]
    files: tuple[ArchivedFile, ...]
    topics: tuple[ArchivedTopic, ...]
    stream: StreamPlace | None = None

    @property
    def record_count(self) -> int:
        """The records in its files."""
        return sum(each.record_count for each in self.ranges)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole manifest, with `runs` in order."""

    path: str
    identity: Identity
    runs: tuple[Run, ...] = field(default=())

    @property
    def topics(self) -> tuple[ArchivedTopic, ...]:
        """The topics of the archive."""
        return self.runs[-1].topics if self.runs else ()

    @property
    def record_count(self) -> int:
        """The records in the archive."""
        return sum(each.record_count for each in self.runs)


def current(topics: Sequence[ArchivedTopic]) -> dict[str, ArchivedTopic]:
    """Return the current topic of each name."""
    return {each.topic: each for each in topics}


def encode_identity(identity: Identity) -> bytes:
    """Return an identity as JSON."""
    return _json({"format_version": FORMAT_VERSION, **asdict(identity)})


def decode_identity(data: bytes, where: str) -> Identity:
    """Return an identity from JSON; SourceError for other bytes."""
    given = _parsed(data, where)
    return Identity(given["archive_id"], given["format"], given["isolation_level"])


def encode_run(run: Run) -> bytes:
    """Return a run as JSON, with what people look for first."""
    return _json(
        {
            "format_version": FORMAT_VERSION,
            "number": run.number,
            "run_id": run.run_id,
            "source": run.source,
            "isolation_level": run.isolation_level,
            "started_ms": run.started_ms,
            "committed_ms": run.committed_ms,
            "record_count": run.record_count,
            "size": run.size,
            "stream": run.stream and run.stream._asdict(),
            "ranges": [each._asdict() for each in run.ranges],
            "gaps": [each._asdict() for each in run.gaps],
            "files": [each._asdict() for each in run.files],
            "topics": [_topic(each) for each in run.topics],
        }
    )


def decode_run(data: bytes, where: str) -> Run:
    """Return a run from JSON; SourceError for other bytes."""
    given = _parsed(data, where)
    return Run(
        number=given["number"],
        run_id=given["run_id"],
        source=given["source"],
        isolation_level=given["isolation_level"],
        started_ms=given["started_ms"],
        committed_ms=given["committed_ms"],
        ranges=tuple(ArchivedRange(**each) for each in given["ranges"]),
        gaps=tuple(Gap(**each) for each in given["gaps"]),
        files=tuple(ArchivedFile(**each) for each in given["files"]),
        topics=tuple(_archived_topic(each) for each in given["topics"]),
        stream=StreamPlace(**given["stream"]) if given["stream"] else None,
    )


def _topic(topic: ArchivedTopic) -> dict[str, Any]:
    partitions: dict[str, list[list[int]]] = {}
    for each in topic.ranges:
        partitions.setdefault(str(each.partition), []).append([each.start_offset, each.end_offset])
    names = {"topic": topic.topic, "topic_id": topic.topic_id, "cluster_id": topic.cluster_id, "folder": topic.folder}
    return {**names, "partitions": partitions}


def _archived_topic(given: Mapping[str, Any]) -> ArchivedTopic:
    ranges = [
        PartitionRange(given["topic"], int(partition), start, end)
        for partition, pairs in given["partitions"].items()
        for start, end in pairs
    ]
    return ArchivedTopic(given["topic"], given["topic_id"], given["cluster_id"], given["folder"]).with_ranges(ranges)


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _parsed(data: bytes, where: str) -> dict[str, Any]:
    try:
        given = json.loads(data)
        version = given["format_version"]
    except (ValueError, KeyError, TypeError):
        raise SourceError(f"{where} is damaged: it is not a file of an archive's manifest") from None
    if version != FORMAT_VERSION:
        raise SourceError(f"{where} has format version {version}; this minibroker knows {FORMAT_VERSION}: use a newer one")
    found: dict[str, Any] = given
    return found
