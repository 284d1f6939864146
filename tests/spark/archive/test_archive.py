"""Archives of real topics, by real Spark: each is exactly what a consumer under read_committed is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minibroker.spark.archive import archive, read_archive, read_manifest
from minibroker.spark.archive.files import HadoopTableFiles, LocalTableFiles, open_folder
from minibroker.spark.archive.manifest import Gap
from minibroker.spark.archive.staging import DATE
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.ranges import PartitionRange
from tests.spark.archive import test_store
from tests.spark.archive.reading import archived, consumed
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.timeout(600)]

DAY_MS = 86_400_000
T = 1_700_000_000_000 // DAY_MS * DAY_MS  #: midnight


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Ours, unless the test asks for Apache Kafka, too."""
    settings = {"num.partitions": "2", "log.retention.ms": "-1"}
    (tmp_path / "broker").mkdir()
    if getattr(request, "param", "minibroker") == "kafka":
        with KafkaProcess(tmp_path / "broker", settings=settings) as kafka:
            yield kafka
        return
    with BrokerProcess(tmp_path / "broker", *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))) as broker:
        yield broker


def write(bootstrap: str, topic: str, count: int, *, first: int = 0, partition: int | None = None) -> None:
    """Records with keys, values and headers that may be null, half a day from one to the next."""
    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        key, value = (b"k%d" % number if number % 3 else None), (b"v%d" % number if number % 5 else None)
        headers = [("n", b"%d" % number), ("n", None)] if number % 2 else None
        where = number % 2 if partition is None else partition
        producer.produce(topic, value, key, where, timestamp=T + number * DAY_MS // 2, headers=headers)
    assert producer.flush(60) == 0


def plain(spark: Any, path: Path) -> Any:
    """As any reader of Parquet sees it."""
    return spark.read.parquet(str(path))


@pytest.mark.parametrize("broker", ["minibroker", pytest.param("kafka", marks=pytest.mark.java)], indirect=True)
def test_run_after_run(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    write(broker.bootstrap, "2026", 20)  # a name that Spark would take for a number
    writer = TransactionalWriter(broker.bootstrap, "writer")
    writer.committed("2026", [b"a", b"b"])
    writer.aborted("2026", [b"c"])
    writer.committed("other.topic", [b"d"])
    first = archive(spark, broker.bootstrap, str(path), pattern="2026|other.*")
    assert (first.record_count, len(first.runs), first.recovered) == (23, 1, ((), ()))
    assert archived(read_archive(spark, str(path), ["2026"])) == consumed(broker.bootstrap, "2026")
    assert archived(read_archive(spark, str(path), ["other.topic"])) == consumed(broker.bootstrap, "other.topic")
    (run,) = first.runs
    assert [each[:5] for each in run.ranges] == [("2026", 0, 0, 15, 12), ("2026", 1, 0, 10, 10), ("other.topic", 0, 0, 2, 1)]

    assert archive(spark, broker.bootstrap, str(path), ["2026"]).runs == ()
    writer.begin()
    writer.send("2026", [b"open"])
    write(broker.bootstrap, "2026", 7, first=20)
    assert archive(spark, broker.bootstrap, str(path), ["2026"]).record_count == 3  # of partition 1
    writer.commit()
    rest = archive(spark, broker.bootstrap, str(path), ["2026"], offsets_per_run=2, compression="snappy")
    assert (rest.record_count, len(rest.runs)) == (5, 3)  # 6 offsets
    expected = consumed(broker.bootstrap, "2026")
    assert len(expected) == 30
    found = read_archive(spark, str(path))
    assert [*found.columns] == ["key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType", "date"]
    assert archived(found.where("topic = '2026'")) == expected
    assert found.where("date <> to_date(timestamp)").isEmpty()
    assert archived(plain(spark, path)) == archived(found)
    manifest = read_manifest(spark, str(path))
    assert [run.number for run in manifest.runs] == [1, 2, 3, 4, 5]
    assert manifest.record_count == 31
    assert {file.path for run in manifest.runs for file in run.files} == {
        file.path for file in LocalTableFiles().below(str(path)) if not file.path.startswith("_")
    }
    assert manifest.topics[0].ranges == (PartitionRange("2026", 0, 0, 21), PartitionRange("2026", 1, 0, 13))


def test_ranges_gaps_and_another_topic_of_the_name(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    path, admin = str(tmp_path / "archive"), AdminClient({"bootstrap.servers": broker.bootstrap})
    write(broker.bootstrap, "t", 10, partition=0)

    def part(start: int, end: int, **options: Any) -> Any:
        given = [f'{{"t": {{"0": {offset}, "1": 0}}}}' for offset in (start, end)]
        return archive(spark, broker.bootstrap, path, ["t"], starting=given[0], ending=given[1], **options)

    assert part(2, 4).record_count == 2
    with pytest.raises(SourceError, match=r"t-0 \[3, 4\) is archived already"):
        part(3, 6)
    with pytest.raises(SourceError, match="t-0 has no offset 11"):
        part(4, 11)
    skipping = part(1, 6, overlap="skip")
    assert skipping.skipped == (PartitionRange("t", 0, 2, 4),)
    assert [run.ranges[0][2:] for run in skipping.runs] == [(1, 2, 1, 1, 1), (4, 6, 2, 4, 5)]
    offsets = [each.offset for each in archived(read_archive(spark, path))]
    assert offsets == [1, 2, 3, 4, 5]

    admin.delete_records([TopicPartition("t", 0, 8)])[TopicPartition("t", 0)].result(timeout=60)
    with pytest.raises(SourceError, match="offsets 6 up to 8 of t-0 were deleted before they were archived: --allow-gaps"):
        archive(spark, broker.bootstrap, path, ["t"])
    gone = archive(spark, broker.bootstrap, path, ["t"], allow_gaps=True)
    assert (gone.record_count, gone.runs[0].gaps) == (2, (Gap("t", 0, 6, 8),))
    old = archived(read_archive(spark, path))
    assert [each.offset for each in old] == [1, 2, 3, 4, 5, 8, 9]

    old_id = ClusterSource(broker.bootstrap).topic_ids(["t"])["t"]
    admin.delete_topics(["t"])["t"].result(timeout=60)
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=60)
    write(broker.bootstrap, "t", 4, first=50, partition=0)
    new_id = ClusterSource(broker.bootstrap).topic_ids(["t"])["t"]
    with pytest.raises(SourceError, match=f"topic t was recreated: its id is {new_id}, the archive has {old_id}"):
        archive(spark, broker.bootstrap, path, ["t"])
    assert archive(spark, broker.bootstrap, path, ["t"], allow_recreated=True).record_count == 4
    assert archived(read_archive(spark, path)) == consumed(broker.bootstrap, "t")
    assert archived(read_archive(spark, path, ["t"], topic_id=old_id)) == old
    assert sorted(row.topic for row in spark.read.parquet(path).select("topic").distinct().collect()) == ["t", "t@2"]
    assert archive(spark, broker.bootstrap, path, ["t"]).runs == ()
    with pytest.raises(SourceError, match="no topic t with the id x; it has "):
        read_archive(spark, path, ["t"], topic_id="x")
    with pytest.raises(SourceError, match="has no topic u; it has t"):
        read_archive(spark, path, ["u"])


def test_a_log_directory_and_its_cluster_in_turn(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    """The same topic ids: one goes on where the other has stopped."""
    path = str(tmp_path / "archive")
    directory = LogDirectorySource(str(broker.data_dir))
    write(broker.bootstrap, "t", 6)
    assert archive(spark, directory, path, ["t"]).record_count == 6
    write(broker.bootstrap, "t", 6, first=6)
    assert archive(spark, broker.bootstrap, path, ["t"]).record_count == 6
    write(broker.bootstrap, "t", 6, first=12)
    assert archive(spark, directory, path, ["t"]).record_count == 6
    assert archived(read_archive(spark, path)) == consumed(broker.bootstrap, "t")
    with pytest.raises(SourceError, match="was created with read_committed"):
        archive(spark, ClusterSource(broker.bootstrap, isolation_level="read_uncommitted"), path, ["t"])
    with pytest.raises(SourceError, match="there is no topic oders in the cluster"):
        archive(spark, broker.bootstrap, f"{path}-2", ["oders"])
    with pytest.raises(SourceError, match="got 'lzma'"):
        archive(spark, directory, path, ["t"], compression="lzma")
    with pytest.raises(SourceError, match="got 'csv'"):
        archive(spark, directory, path, ["t"], format="csv")
    with pytest.raises(SourceError, match="got 'x'"):
        archive(spark, directory, path, ["t"], overlap="x")


def test_a_job_that_died_behind_its_commit(spark: Any, broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are there for who reads by the manifest, at once; the next job moves the files."""
    path = str(tmp_path / "archive")
    write(broker.bootstrap, "t", 6)
    archive(spark, broker.bootstrap, path, ["t"])
    write(broker.bootstrap, "t", 6, first=6)
    publish = ArchiveStore._publish_file
    published: list[Any] = []

    def dies(self: ArchiveStore, file: Any, folders: Any) -> None:
        if len(published) == 2:
            raise KeyboardInterrupt
        published.append(file)
        publish(self, file, folders)

    monkeypatch.setattr(ArchiveStore, "_publish_file", dies)
    with pytest.raises(KeyboardInterrupt):
        archive(spark, broker.bootstrap, path, ["t"])
    monkeypatch.undo()
    expected = consumed(broker.bootstrap, "t")
    assert 6 < plain(spark, Path(path)).count() < 12
    assert archived(read_archive(spark, path)) == expected
    assert archive(spark, broker.bootstrap, path, ["t"]).recovered == ((2,), ())
    assert archived(plain(spark, Path(path))) == archived(read_archive(spark, path)) == expected


def test_dates(spark: Any) -> None:
    """In UTC, whatever the session's zone is; -1 ms is no time, as Kafka has it."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        times = ", ".join(f"({ms})" for ms in (-1, 0, DAY_MS - 1, DAY_MS, T))
        rows = spark.sql(f"select ms, string({DATE}) date from (select ms, timestamp_millis(ms) timestamp from values {times} as t(ms))")  # noqa: S608  ours
        found = {row.ms: row.date for row in rows.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found == {-1: None, 0: "1970-01-01", DAY_MS - 1: "1970-01-01", DAY_MS: "1970-01-02", T: "2023-11-14"}


def test_any_file_system_of_hadoop(spark: Any, tmp_path: Path) -> None:
    """The local one, by Hadoop's own interface, which HDFS has, too."""
    assert isinstance(open_folder(spark, f"file://{tmp_path}/x")[0], LocalTableFiles)
    assert open_folder(spark, f"file:{tmp_path}/x")[1] == open_folder(spark, f"{tmp_path}/x")[1] == f"{tmp_path}/x"
    jvm = spark._jvm
    files = HadoopTableFiles(jvm, jvm.org.apache.hadoop.fs.Path("file:///").getFileSystem(spark._jsc.hadoopConfiguration()))
    path = tmp_path / "archive"
    test_store.job(path, files, total=6)  # type: ignore[arg-type]  # as good as a LocalTableFiles
    store = ArchiveStore(files, str(path))
    attempt = store.begin()
    files.write(f"{attempt.data}/x", b"x")
    assert store.recover() == ((), (3,))
    assert test_store.published(path) == [*range(6)]
    with pytest.raises(FileNotFoundError):
        files.read(f"{path}/nothing")
    with pytest.raises(FileNotFoundError):
        files.move(f"{path}/nothing", f"{path}/else")
    with pytest.raises(FileExistsError):
        files.commit(f"{path}/_minibroker/archive.json", f"{path}/_minibroker/runs/{1:020d}.json")
    assert (files.size(f"{path}/nothing"), files.names(f"{path}/nothing"), files.below(f"{path}/nothing")) == (None, [], [])
