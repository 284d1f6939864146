"""Write one run of an archive in Delta Lake. Delta's commit adds the records to the table, the manifest's commit the run.

    _minibroker/intents/VERSION.json     the run to be written, a Run without figures; the table's transaction has this VERSION

Delta stores for each application (here: the archive's id) the largest version that was committed with records,
and rejects a second commit of a version. The steps of a run are: write its intent; write the records with the
intent's version; read the figures from the table; commit to the manifest. A job that finds an intent without a
run first writes no records under the intent's version. Either Delta rejects that, because the records are
there, or the records can never be added, even by a Spark that outlived its driver. The table's rows show which.

The files are named in Delta's log, not in the manifest. A recreated topic is noticed before the write, not
after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.archive.manifest import DELTA, ArchivedTopic, Gap, Run, StreamPlace, decode_run, encode_run
from minibroker.spark.archive.planning import check_ids
from minibroker.spark.archive.runs import MakeFrame, RunWriter, archived_ranges, folders_of, parallelism, topics_after, with_new
from minibroker.spark.archive.staging import Counted, archived_frame, check_partitions, task_counts
from minibroker.spark.archive.store import OURS, Attempt, Recovered
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import SCHEMA, PartitionRange, any_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: minor version of Spark -> the release of Delta Lake for it; a later Spark gets the last one
RELEASES: Mapping[str, str] = {"4.0": "4.0.0", "4.1": "4.1.0", "4.2": "4.2.0"}


def package_for(spark_version: str) -> str:
    """Return the Maven coordinate of the Delta Lake for a version of Spark."""
    minor = ".".join(spark_version.split(".")[:2])
    return f"io.delta:delta-spark_2.13:{RELEASES.get(minor, list(RELEASES.values())[-1])}"


#: what a session needs: kafka_session(packages=PACKAGES, conf=CONF)
PACKAGES = (package_for(version("pyspark")),)
CONF: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class DeltaRunWriter(RunWriter):
    """Writes runs to an archive in Delta Lake."""

    def recover(self) -> Recovered:
        """Finish the run of a job that died, or ensure that its records can never be added."""
        files = self.store.recover()
        version, intent = self._last_intent()
        latest = self.store.latest()
        if intent is None or (latest is not None and latest.number >= intent.number):
            return files
        empty = self.spark.createDataFrame([], SCHEMA)
        self._save(archived_frame(empty, {}), version)
        partitions = self._count(intent.topics, [PartitionRange(*each[:4]) for each in intent.ranges])
        if not partitions:
            return files._replace(removed=(*files.removed, intent.number))
        attempt = self.store.begin()
        self._commit(attempt, intent, partitions)
        return files._replace(finished=(*files.finished, intent.number))

    def write(
        self,
        topics: Sequence[ArchivedTopic],
        ranges: Sequence[PartitionRange],
        gaps: Sequence[Gap],
        make_frame: MakeFrame,
        *,
        stream: StreamPlace | None = None,
    ) -> Run:
        """Write one run; see RunWriter.write."""
        check_ids(topics, self.source.topic_ids(sorted({each.topic for each in ranges} | {gap.topic for gap in gaps})))
        attempt = self.store.begin()
        topics = with_new(self.archived(), topics)
        intent = Run(
            number=attempt.number,
            run_id=attempt.run_id,
            source=str(self.source),
            isolation_level=self.identity.isolation_level,
            started_ms=self.clock.now_ms(),
            committed_ms=0,
            ranges=archived_ranges(topics, ranges, {}),
            gaps=tuple(gaps),
            files=(),
            topics=tuple(topics),
            stream=stream,
        )
        if not any(each.size for each in ranges):
            return self._commit(attempt, intent, {})
        more = self.more_columns()
        version = self._last_intent()[0] + 1
        self._write_intent(version, intent)
        seen = Observation()
        frame = archived_frame(make_frame(self.spark), folders_of(topics), more)
        rows = frame.coalesce(task_counts(ranges, parallelism(self.spark))[1])
        self._save(rows.observe(seen, F.count(F.lit(1)).alias("count")), version, adds_columns=bool(more))
        partitions = self._count(topics, ranges)
        check_partitions(partitions, ranges, folders_of(topics))
        written = sum(each.record_count for each in partitions.values())
        if written != seen.get["count"]:
            raise SourceError(
                f"Spark read {seen.get['count']} records and the table at {self.store.path} has {written} of these offsets: another "
                "program has written to it"
            )
        return self._commit(attempt, intent, partitions)

    def _commit(self, attempt: Attempt, intent: Run, partitions: Mapping[tuple[str, int], Counted]) -> Run:
        ranges = [PartitionRange(*each[:4]) for each in intent.ranges]
        run = Run(
            number=attempt.number,
            run_id=attempt.run_id,
            source=intent.source,
            isolation_level=intent.isolation_level,
            started_ms=intent.started_ms,
            committed_ms=self.clock.now_ms(),
            ranges=archived_ranges(intent.topics, ranges, partitions),
            gaps=intent.gaps,
            files=(),
            topics=topics_after(intent.topics, ranges, intent.gaps),
            stream=intent.stream,
        )
        self.store.commit(attempt, run)
        return run

    def _save(self, rows: DataFrame, version: int, *, adds_columns: bool = False) -> None:
        """Add rows to the table under a version; do nothing if that version was committed before."""
        writer = rows.write.format(DELTA).mode("append").partitionBy("topic", "date").option("compression", self.compression)
        writer = writer.option("txnAppId", self.identity.archive_id).option("txnVersion", str(version))
        if adds_columns:
            writer = writer.option("mergeSchema", "true")
        writer.save(self.store.files.url(self.store.path))

    def _count(self, topics: Sequence[ArchivedTopic], ranges: Sequence[PartitionRange]) -> dict[tuple[str, int], Counted]:
        """Count the table's records in these ranges."""
        folders = folders_of(topics)
        conditions = [
            (F.col("topic") == folders[each.topic])
            & (F.col("partition") == each.partition)
            & F.col("offset").between(each.start_offset, each.end_offset - 1)
            for each in ranges
            if each.size > 0
        ]
        if not conditions:
            return {}
        table = self.spark.read.format(DELTA).load(self.store.files.url(self.store.path))
        groups = table.where(any_of(conditions)).groupBy("topic", "partition")
        rows = groups.agg(F.count("offset").alias("count"), F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
        return {(row["topic"], row["partition"]): Counted(row["count"], row["first"], row["last"]) for row in rows}

    @property
    def _intents(self) -> str:
        return f"{self.store.path}/{OURS}/intents"

    def _last_intent(self) -> tuple[int, Run | None]:
        """Return the largest version used so far and its intent; None without an intent, or for a torn one, which no write followed."""
        versions = sorted(
            int(name[:20]) for name in self.store.files.names(self._intents) if name[:20].isdigit() and name.endswith(".json")
        )
        if not versions:
            return 0, None
        path = self._intent_path(versions[-1])
        data = self.store.files.read(path)
        try:
            json.loads(data)
        except ValueError:
            return versions[-1], None
        return versions[-1], decode_run(data, path)

    def _write_intent(self, version: int, intent: Run) -> None:
        draft = f"{self._intents}/draft-{intent.run_id}"
        self.store.files.write(draft, encode_run(intent))
        try:
            self.store.files.commit(draft, self._intent_path(version))
        except FileExistsError:
            raise SourceError(f"another job is writing to the archive at {self.store.path}: nothing of this run was kept") from None
        finally:
            self.store.files.remove(draft)
        for old in range(version - 2, 0, -1):
            if self.store.files.size(self._intent_path(old)) is None:
                break
            self.store.files.remove(self._intent_path(old))

    def _intent_path(self, version: int) -> str:
        return f"{self._intents}/{version:020d}.json"
