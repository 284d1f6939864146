"""`replay`: write records of a DataFrame or a table to topics, each exactly once. See docs/replay.md.

look, check_same      read what earlier runs of the name did      scan       count the records to write, check them
prepare_topics        look up or create the targets               enter      stop tasks of earlier runs
arrange, ReplayTask   run a task for each target partition        read_on    read the result from the ledger
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from minibroker.client.client import Client
from minibroker.client.routing import TopicPartition
from minibroker.records.compression import Compression
from minibroker.spark.archive.reading import archived_topic_ids
from minibroker.spark.client_config import connect_of, executor_config
from minibroker.spark.failures import ReplayError
from minibroker.spark.progress import phase
from minibroker.spark.replay.begin import Beginning, as_text, check_same, check_sources, check_topics, enter, look
from minibroker.spark.replay.frame import (
    TOPIC,
    Prepared,
    ScannedPartition,
    Selection,
    arrange,
    check_targets,
    not_before,
    prepare,
    scan,
    select,
)
from minibroker.spark.replay.ledger import Ledger, Run, check_name, ledger_of
from minibroker.spark.replay.mapping import check_mapping_path, read_mapping, write_mapping
from minibroker.spark.replay.targets import Creation, KeyPartitioner, TargetTopic, prepare_topics
from minibroker.spark.replay.task import RESULT_DDL, ReplayTask
from minibroker.spark.replay.writer import Target, WriterSettings
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position, as_position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: if a partition cannot be resumed and is one transaction: the most that brokers allow by default
WHOLE_PARTITION_TIMEOUT_MS = 900_000


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings that rarely need to change.

    Attributes:
        batch_bytes: of records in a batch before compression, limited by the topic's max.message.bytes.
        transaction_bytes: of batches in a transaction. A task keeps them until they are committed.
        transaction_age_ms: commit a transaction after this time, even if it is small.
        transaction_timeout_ms: the broker aborts a transaction after this time.
        timeout_ms: a task fails after brokers were unreachable for this time.
    """

    batch_bytes: int = 1_000_000
    transaction_bytes: int = 16 * 1024 * 1024
    transaction_age_ms: int = 10_000
    transaction_timeout_ms: int = 60_000
    timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class ReplayedPartition:
    """What a run wrote to one target partition: all records from the first to the last offset."""

    source_topic: str
    topic: str
    partition: int
    records: int
    bytes: int  #: of batches as stored
    old_first: int
    old_last: int
    new_first: int
    new_last: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a run; `mapping` reads the offset mapping of all runs of the name."""

    name: str
    run: int
    resumed: bool  #: whether earlier runs have written records
    records: int
    bytes: int
    seconds: float
    ledger: str  #: the topic of the runs and the mapping
    partitions: tuple[ReplayedPartition, ...]
    bootstrap_servers: str = field(repr=False)
    client_config: Mapping[str, str] = field(repr=False, default_factory=dict)  #: of the run; it has secrets

    def mapping(self, spark: SparkSession) -> DataFrame:
        """Return the offset mapping; see read_mapping."""
        return read_mapping(spark, bootstrap_servers=self.bootstrap_servers, name=self.name, client_config=self.client_config)

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        found = asdict(self)
        del found["bootstrap_servers"], found["client_config"]
        found["partitions"] = list(found["partitions"])
        return found


def replay(
    spark: SparkSession,
    *,
    source: str | DataFrame,
    bootstrap_servers: str,
    name: str,
    topic: str | None = None,
    rename: Mapping[str, str] | None = None,
    topics: Iterable[str] = (),
    starting: Position | str = EARLIEST,
    ending: Position | str = LATEST,
    where: str | None = None,
    order_by: str | None = None,
    timestamps: str = "now",
    compression: str = "lz4",
    rate: float | None = None,
    creation: Creation | None = None,
    mapping: str | None = None,
    tuning: Tuning | None = None,
    client_config: Mapping[str, str] | None = None,
) -> ReplayResult:
    """Write records to topics, each exactly once, in the order of their offsets, to their old partition numbers.

    Run it again with the same name to resume, or to write new records of the source.

    Args:
        spark: a session; see `minibroker.spark.session.kafka_session`.
        source: a table (an archive, a folder of Parquet), or a DataFrame with the columns of docs/replay.md.
        bootstrap_servers: of the target cluster.
        name: of the replay; its ledger, group and transactional ids contain it.
        topic: the target topic of all records.
        rename: target topics by source topic; other records keep their topic.
        topics: replay only these source topics.
        starting: the first offset of each partition, or a time (sources/positions.py).
        ending: the end, exclusive.
        where: an SQL condition on the source's columns.
        order_by: a column of whole numbers to use as `offset`, each once in a target partition.
        timestamps: `keep` the source's timestamps, or `now`.
        compression: none, gzip, snappy, lz4 or zstd.
        rate: the most records per second, over all tasks.
        creation: how to create missing topics. Default: with as many partitions as the source has.
        mapping: a folder for the offset mapping, as Parquet.
        tuning: sizes and times.
        client_config: how to connect by TLS and SASL: properties of Java's clients or librdkafka.

    Raises:
        ReplayError, SourceError: the replay is not possible; unless the message says otherwise, nothing was written.
        ClientError, KafkaError: no broker answers, or one rejects a request.
    """
    began_s, starting, ending = time.monotonic(), as_position(starting), as_position(ending)
    _check(spark, name, timestamps, rate, mapping)
    chosen = Selection(topic, dict(rename or {}), order_by, timestamps == "keep")
    frame = select(spark, source, topics=tuple(topics), starting=starting, ending=ending, where=where)
    options = _Options(
        bootstrap_servers=bootstrap_servers,
        name=name,
        source=source if isinstance(source, str) else "a DataFrame",
        source_ids=archived_topic_ids(spark, source) if isinstance(source, str) else {},
        selection=_same_each_time(chosen, tuple(topics), starting, where),
        keeps_timestamps=chosen.keeps_timestamps,
        compression=_compression(compression),
        rate=rate,
        creation=creation or Creation(),
        tuning=tuning or Tuning(),
        client_config=executor_config(client_config),
    )
    result = _result(options, _ReplayRun(spark, prepare(frame, chosen), options).run(), time.monotonic() - began_s)
    if mapping is not None:
        write_mapping(result.mapping(spark), mapping)
    return result


def _check(spark: SparkSession, name: str, timestamps: str, rate: float | None, mapping: str | None) -> None:
    """Raise ReplayError for arguments and settings that are invalid for any source."""
    check_name(name)
    if timestamps not in {"keep", "now"}:
        raise ReplayError(f"timestamps must be 'keep' or 'now', got {timestamps!r}")
    if rate is not None and rate <= 0:
        raise ReplayError(f"rate must be above 0 records per second, got {rate}")
    if spark.conf.get("spark.speculation", "false") == "true":
        raise ReplayError("spark.speculation=true runs tasks twice at a time, and they fence each other: switch it off")
    if mapping is not None:
        check_mapping_path(spark, mapping)


def _same_each_time(chosen: Selection, topics: tuple[str, ...], starting: Position, where: str | None) -> dict[str, str]:
    """Return the arguments that decide which records go where, by the names used in errors."""
    return {
        "topic": chosen.topic or "",
        "renaming": as_text(chosen.rename),
        "topics": ",".join(sorted(topics)),
        "start": "" if starting == EARLIEST else str(starting),
        "condition": where or "",
        "order": chosen.order_by or "",
    }


@dataclass(frozen=True, slots=True)
class _Options:
    """The checked arguments of a replay."""

    bootstrap_servers: str
    name: str
    source: str  #: as text
    source_ids: Mapping[str, str]  #: of topics of an archive, by name
    selection: dict[str, str]  #: must be the same in each run of the name
    keeps_timestamps: bool
    compression: Compression
    rate: float | None
    creation: Creation
    tuning: Tuning
    client_config: Mapping[str, str] = field(repr=False)


class _FinishedRun(NamedTuple):
    """A finished run, and the ledger after it."""

    run: Run
    ledger: Ledger
    is_resumed: bool


class _ReplayRun:
    """One run, step by step."""

    def __init__(self, spark: SparkSession, prepared: Prepared, options: _Options) -> None:
        self._spark = spark
        self._client = Client(options.bootstrap_servers, timeout_ms=options.tuning.timeout_ms, connect=connect_of(options.client_config))
        self._prepared = prepared
        self._options = options

    def run(self) -> _FinishedRun:
        """Run all steps."""
        with self._client:
            return self._run()

    def _run(self) -> _FinishedRun:
        options, is_resumable = self._options, self._prepared.is_resumable
        with phase(f"reading what replay {options.name} has done"):
            beginning = look(self._client, options.name)
            check_topics(self._client, beginning)
        with phase("counting the records to replay"):
            frame, counts = self._with_partitions()
            selection = {**options.selection, "partitions by key": as_text(counts)}
            check_same(beginning, options.source, selection, is_resumable=is_resumable)
            check_sources(beginning, options.source_ids)
            left = not_before(frame, beginning.next_offsets, beginning.sources())
            scanned = scan(left)
            check_targets(scanned, beginning.sources())
        topics = self._topics(scanned)
        topic_ids = {each.name: each.id for each in topics.values()}
        number = beginning.last_run.run + 1 if beginning.last_run else 1
        run = Run(
            number, str(uuid.uuid4()), time.time_ns() // 1_000_000, options.source, is_resumable, selection, topic_ids, options.source_ids
        )
        enter(self._client, beginning, run)
        if scanned:
            self._write(run, left, _targets(scanned, topics, beginning))
        ledger = beginning.ledger
        ledger.read_on(self._client, ledger_of(options.name))
        _check_complete(scanned, beginning.written, ledger.totals())
        return _FinishedRun(run, ledger, bool(beginning.next_offsets))

    def _with_partitions(self) -> tuple[DataFrame, dict[str, int]]:
        """Return the records with their partitions and, if keys decide, the topics' partition counts."""
        prepared = self._prepared
        if prepared.has_partitions:
            return prepared.frame, {}
        rows = prepared.frame.select(TOPIC).distinct().collect()
        names = [row[TOPIC] for row in rows if row[TOPIC] is not None]
        if len(names) < len(rows):
            raise ReplayError("records of the source have a null topic: leave them out, or give one topic for all records")
        topics = prepare_topics(
            self._client, dict.fromkeys(names, 0), self._options.creation, keeps_timestamps=self._options.keeps_timestamps
        )
        counts = {each.name: each.partition_count for each in topics.values()}
        return prepared.frame.mapInArrow(KeyPartitioner(counts), prepared.frame.schema), counts

    def _topics(self, scanned: list[ScannedPartition]) -> dict[str, TargetTopic]:
        needed: dict[str, int] = {}
        for each in scanned:
            needed[each.topic] = max(needed.get(each.topic, 0), each.partition + 1)
        if not needed:
            return {}
        return prepare_topics(self._client, needed, self._options.creation, keeps_timestamps=self._options.keeps_timestamps)

    def _write(self, run: Run, frame: DataFrame, targets: list[Target]) -> None:
        options, tuning = self._options, self._options.tuning
        arranged, numbers = arrange(frame, targets)
        settings = WriterSettings(
            name=options.name,
            run=run.run,
            run_id=run.id,
            is_resumable=run.resumable,
            transaction_bytes=tuning.transaction_bytes,
            transaction_age_ms=tuning.transaction_age_ms,
            transaction_timeout_ms=tuning.transaction_timeout_ms if run.resumable else WHOLE_PARTITION_TIMEOUT_MS,
        )
        at_a_time = min(len(targets), self._spark.sparkContext.defaultParallelism)
        task = ReplayTask(
            bootstrap_servers=options.bootstrap_servers,
            timeout_ms=tuning.timeout_ms,
            targets=numbers,
            settings=settings,
            compression=options.compression,
            batch_bytes=tuning.batch_bytes,
            records_per_s=None if options.rate is None else options.rate / at_a_time,
            client_config=options.client_config,
        )
        with phase(f"replaying to {', '.join(sorted({target.topic for target in targets}))}"):
            arranged.mapInArrow(task, RESULT_DDL).collect()


def _targets(scanned: list[ScannedPartition], topics: Mapping[str, TargetTopic], beginning: Beginning) -> list[Target]:
    return [
        Target(
            source_topic=each.source_topic,
            source_partition=each.partition,
            topic=each.topic,
            partition=each.partition,
            topic_id=topics[each.topic].id,
            next_offset=beginning.next_offsets.get((each.topic, each.partition), 0),
            max_message_bytes=topics[each.topic].max_message_bytes,
        )
        for each in scanned
    ]


def _compression(name: str) -> Compression:
    try:
        return Compression.from_name(name)
    except ValueError as error:
        raise ReplayError(f"{error}: none, gzip, snappy, lz4 or zstd") from None


def _check_complete(scanned: list[ScannedPartition], before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> None:
    """Raise ReplayError if more or fewer records were written than counted, since the source changed meanwhile."""
    for each in scanned:
        key = each.topic, each.partition
        written = after.get(key, 0) - before.get(key, 0)
        if written != each.records:
            raise ReplayError(
                f"the source had {each.records} records for {each.topic}-{each.partition} when it was counted, and {written} when it was"
                " replayed: it changed meanwhile"
            )


def _result(options: _Options, done: _FinishedRun, seconds: float) -> ReplayResult:
    partitions = tuple(
        ReplayedPartition(
            source_topic=each.source[0],
            topic=key[0],
            partition=key[1],
            records=each.records,
            bytes=each.byte_count,
            old_first=each.old_first,
            old_last=each.old_last,
            new_first=each.new_first,
            new_last=each.new_last,
        )
        for key, each in sorted(done.ledger.by_run.get(done.run.run, {}).items())
    )
    return ReplayResult(
        name=options.name,
        run=done.run.run,
        resumed=done.is_resumed,
        records=sum(each.records for each in partitions),
        bytes=sum(each.bytes for each in partitions),
        seconds=round(seconds, 3),
        ledger=ledger_of(options.name),
        partitions=partitions,
        bootstrap_servers=options.bootstrap_servers,
        client_config=options.client_config,
    )
