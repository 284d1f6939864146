"""Create a view for each topic that a query names, so that SQL can query clusters, log directories and archives.

Each view has the columns of Spark's Kafka source; with `text`, key and value are strings. Ranges are
resolved once: a query that names a topic twice sees the same records twice, even if clients write more.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from minibroker.spark.failures import SourceError
from minibroker.spark.kafka_log.directory import open_folders
from minibroker.spark.kafka_log.options import parse_options
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position
from minibroker.spark.sources.ranges import COLUMNS, ResolvedTopics
from minibroker.spark.sources.source import TopicSource
from minibroker.spark.sources.table import TableSource
from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
#: the first words of queries in Spark's SQL
_FIRST_WORDS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "DESC", "EXPLAIN", "SHOW", "MAP", "REDUCE")


def topics_named(query: str, topics: Collection[str]) -> list[str]:
    """Return the topics whose names occur in a query as words (`orders`, `` `my.topic` ``), sorted.

    A word that happens to be a topic's name costs a look-up; the topic is not read.
    """
    return sorted(name for name in topics if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", query, re.IGNORECASE))


def resolve_named(
    query: str, source: TopicSource, topics: Collection[str], *, starting: Position = EARLIEST, ending: Position = LATEST
) -> ResolvedTopics:
    """Return the ranges of the topics that a query names, without Spark.

    Args:
        query: SQL.
        source: where the topics are.
        topics: the names of all topics; see `topics_of`.
        starting: the first offset of each partition.
        ending: the offset after the last one.

    Raises:
        SourceError: the query names none of the topics.
    """
    named = topics_named(query, topics)
    if not named:
        raise SourceError(_names_nothing(query, topics))
    return source.resolve(named, starting=starting, ending=ending)


def view_topics(spark: SparkSession, source: TopicSource, resolved: ResolvedTopics, *, text: bool = False) -> list[str]:
    """Create a view of each resolved topic, named like the topic; return the names."""
    topics = sorted({each.topic for each in resolved.ranges})
    for topic in topics:
        ranges = [each for each in resolved.ranges if each.topic == topic]
        view(topic, source.frame(spark, ranges), text=text)
    return topics


def view(name: str, frame: DataFrame, *, text: bool = False) -> None:
    """Create a view of records. Queries put names with dots or dashes in backticks."""
    if text:
        frame = frame.selectExpr(*(f"CAST({column} AS STRING)" if column in {"key", "value"} else column for column in COLUMNS))
    frame.createOrReplaceTempView(f"`{name}`")


def topics_of(source: TopicSource) -> set[str]:
    """Return the names of all topics of a source, including internal topics."""
    if isinstance(source, ClusterSource):
        with source.client() as client:
            return {str(topic.name) for topic in client.metadata(None).topics}
    options = parse_options({"path": source.path})
    return {folder.topic for folder in open_folders(RealFiles(), options)}


def view_table(spark: SparkSession, table: str, query: str, *, text: bool = False) -> list[str]:
    """Create views of a table of records: `archive` for all of it, and one for each topic that a query names.

    Args:
        spark: the session that gets the views.
        table: the path or address of an archive or another table.
        query: SQL.
        text: show keys and values as strings.

    Returns:
        The named topics.

    Raises:
        SourceError: the query names neither a topic nor `archive`.
    """
    frame = TableSource(table).frame(spark)
    view("archive", frame, text=text)
    topics = {str(row["topic"]) for row in frame.select("topic").distinct().collect()}
    named = topics_named(query, topics)
    if not named and not re.search(r"\barchive\b", query, re.IGNORECASE):
        raise SourceError(_names_nothing(query, {*topics, "archive"}))
    for topic in named:
        view(topic, frame.where(frame["topic"] == topic), text=text)
    return named


def _names_nothing(query: str, topics: Collection[str]) -> str:
    """Return why a query cannot run, without starting Spark: a wrong first word, or no topic."""
    words = re.findall(r"[^\s(]+", _COMMENT.sub(" ", query))
    if not words:
        return "the query is empty: SELECT ... FROM a topic"
    first = words[0].upper()
    if first not in _FIRST_WORDS:
        near = get_close_matches(first, _FIRST_WORDS, 1)
        return f"the query starts with {words[0]!r}: {f'did you mean {near[0]}?' if near else 'start it with SELECT, WITH or DESCRIBE'}"
    names = sorted(topics)
    return f"the query names no existing topic: there are {', '.join(names[:10]) or 'no topics'}{', ...' if len(names) > 10 else ''}"
