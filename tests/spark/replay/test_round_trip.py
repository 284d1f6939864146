"""A topic with transactions is archived, the archive is replayed into a fresh topic, and the audit finds both equal, record for record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.spark.archive import archive
from minibroker.spark.audit import audit
from minibroker.spark.replay import ReplayError, Tuning, replay
from tests.cli.conftest import Commands
from tests.clients.adapters import CLIENTS, Sent
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.transactional_writer import TransactionalWriter

pytestmark = [pytest.mark.timeout(600)]

T = 1_700_000_000_000


def fill(bootstrap: str) -> int:
    """How many records count."""
    Commands(bootstrap)("topics", "create", "orders", "--partitions", "2")
    writer = TransactionalWriter(bootstrap, "writer")
    for step in range(4):
        writer.committed("orders", [b"committed %d" % step] * 5, partition=step % 2, timestamp=T + step)
        writer.aborted("orders", [b"aborted"], partition=step % 2, timestamp=T + step)
    records = [Sent(None if number % 3 else b"k", b"plain %d" % number, (("h", None),) * (number % 2), T + number) for number in range(30)]
    CLIENTS["confluent-kafka"].write(bootstrap, "orders", records, partition=1)
    return 4 * 5 + len(records)


def test_an_archive_that_is_replayed_is_equal_to_its_topic(spark: Any, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *NO_RETENTION) as broker:
        count = fill(broker.bootstrap)
        archive(spark, broker.bootstrap, f"{tmp_path}/archive", ["orders"])
        arguments: dict[str, Any] = {"rename": {"orders": "fresh"}, "timestamps": "keep", "tuning": Tuning(transaction_bytes=1)}
        result = replay(spark, source=f"{tmp_path}/archive", bootstrap_servers=broker.bootstrap, name="again", **arguments)
        assert result.records == count
        found = audit(
            spark,
            broker.bootstrap,
            broker.bootstrap,
            topics=["orders"],
            rename={"orders": "fresh"},
            match="order",
            columns=["key", "value", "headers", "timestamp"],
        )
        assert found.is_equal
        assert sum(each.right_count for each in found.partitions) == count

        Commands(broker.bootstrap)("topics", "delete", "orders")
        fill(broker.bootstrap)
        archive(spark, broker.bootstrap, f"{tmp_path}/archive", ["orders"], allow_recreated=True)
        with pytest.raises(ReplayError, match="a topic orders that was deleted and recreated since"):  # not: nothing new at its offsets
            replay(spark, source=f"{tmp_path}/archive", bootstrap_servers=broker.bootstrap, name="again", **arguments)
