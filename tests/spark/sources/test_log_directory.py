"""Topics of a log directory as ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.spark.archive import archive, follow
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import Position, parse_position
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.storage.directory_files import format_uuid
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.log_batches import NOW_MS, idempotent_batch


@pytest.fixture
def broker(tmp_path: Path) -> BrokerInMemory:
    broker = BrokerInMemory(topics={"orders": 2, "others": 1}, folder=tmp_path)
    broker.append("orders", 0, records(10, timestamp=NOW_MS))
    producer_id = broker.cluster.metadata.allocate_producer_id()
    broker.cluster.partition("orders", 1).log.append(idempotent_batch(producer_id, 0, b"open", is_transactional=True))
    return broker


def test_ranges_ids_and_the_cluster(broker: BrokerInMemory, tmp_path: Path) -> None:
    found = LogDirectorySource(str(tmp_path)).resolve(pattern="orders|nothing")
    assert found.ranges == (PartitionRange("orders", 0, 0, 10), PartitionRange("orders", 1, 0, 0))
    assert found.topic_ids == {"orders": format_uuid(broker.cluster.topic("orders").topic_id)}
    assert found.cluster_id == broker.cluster.cluster_id
    uncommitted = LogDirectorySource(str(tmp_path), isolation_level="read_uncommitted").resolve(["orders"])
    assert uncommitted.ranges[1].end_offset == 1


def test_times_and_offsets(broker: BrokerInMemory, tmp_path: Path) -> None:
    source = LogDirectorySource(str(tmp_path))
    ending = parse_position('{"orders": {"0": 7, "1": -1}}')
    assert source.resolve(["orders"], starting=Position(timestamp_ms=NOW_MS + 4), ending=ending).ranges[0] == ("orders", 0, 4, 7)
    with pytest.raises(SourceError, match="orders-0 has no offset 11"):
        source.resolve(["orders"], ending=parse_position('{"orders": {"0": 11, "1": 0}}'))


def test_options_that_would_make_a_range_smaller(broker: BrokerInMemory, tmp_path: Path) -> None:
    for name in ("failOnDataLoss", "startingoffsets", "subscribe", "isolationLevel"):
        with pytest.raises(SourceError, match=f"the option {name} is set by the pipeline"):
            LogDirectorySource(str(tmp_path), options={name: "false"})
    permissive = LogDirectorySource(str(tmp_path), options={"mode": "permissive"})
    spark: Any = None
    for begin in (archive, follow):
        with pytest.raises(SourceError, match="mode=PERMISSIVE skips corrupt batches"):
            begin(spark, permissive, f"{tmp_path}/archive", ["orders"])
    assert not (tmp_path / "archive").exists()


def test_what_is_not_there(broker: BrokerInMemory, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="oders: no such topic or partition"):
        LogDirectorySource(str(tmp_path)).resolve(["oders"])
    with pytest.raises(SourceError, match="does not exist"):
        LogDirectorySource(f"{tmp_path}/nothing").resolve(["orders"])
    with pytest.raises(SourceError, match="no topic is given"):
        LogDirectorySource(str(tmp_path)).resolve()
    with pytest.raises(SourceError, match="neither read_committed"):
        LogDirectorySource(str(tmp_path), isolation_level="x")
