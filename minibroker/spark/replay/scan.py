"""Count the records for each target partition, in one pass over topic, partition and offset before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.frame import PARTITION, SOURCE_TOPIC, TOPIC
from minibroker.spark.replay.task import OFFSET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ScannedPartition(NamedTuple):
    """The records of one source partition, and their target."""

    source_topic: str
    topic: str
    partition: int
    records: int
    old_first: int
    old_last: int


def scan(frame: DataFrame) -> list[ScannedPartition]:
    """Return the partitions sorted by target; ReplayError for nulls, and for two source topics with one target."""
    figures = (
        F.count(F.lit(1)).alias("records"),
        F.count(OFFSET).alias("offsets"),
        F.min(OFFSET).alias("old_first"),
        F.max(OFFSET).alias("old_last"),
    )
    found = []
    for row in frame.groupBy(SOURCE_TOPIC, TOPIC, PARTITION).agg(*figures).collect():
        _check(row[SOURCE_TOPIC], row[PARTITION], row["records"], row["offsets"], row["old_first"])
        found.append(ScannedPartition(row[SOURCE_TOPIC], row[TOPIC], row[PARTITION], row["records"], row["old_first"], row["old_last"]))
    found.sort(key=lambda each: (each.topic, each.source_topic, each.partition))
    for one, other in pairwise(found):
        if one.topic == other.topic and one.source_topic != other.source_topic:
            raise ReplayError(
                f"records of {one.source_topic} and {other.source_topic} would both go to {one.topic}, in no defined order:"
                " replay one of them, or rename them to different topics"
            )
    return found


def check_targets(scanned: Sequence[ScannedPartition], before: Mapping[str, str]) -> None:
    """Raise ReplayError if earlier runs wrote records of another source topic; `before` has the source of each target."""
    for each in scanned:
        earlier = before.get(each.topic, each.source_topic)
        if earlier != each.source_topic:
            raise ReplayError(
                f"records of {each.source_topic} would go to {each.topic}, where earlier runs of this replay put those of {earlier}:"
                " rename them to different topics, under another name"
            )


def _check(topic: str | None, partition: int | None, records: int, offsets: int, old_first: int | None) -> None:
    if topic is None:
        raise ReplayError(f"{records} records of the source have a null topic: leave them out, or give one topic for all records")
    if partition is None:
        raise ReplayError(f"{records} records of topic {topic} have a null partition: leave them out, or the whole column, and keys decide")
    if offsets < records or old_first is None:
        raise ReplayError(f"{records - offsets} records of {topic}-{partition} have a null offset: leave them out, or the whole column")
    if partition < 0 or old_first < 0:
        raise ReplayError(f"the source has partition {partition} and offset {old_first} in topic {topic}: neither can be negative")
