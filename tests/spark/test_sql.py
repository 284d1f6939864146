"""`minibroker spark sql` on a cluster, a log directory and a table; the frame of all pipelines is judged along with it."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from minibroker.spark.sql import topics_named
from tests.cli.conftest import Commands
from tests.clients.adapters import CLIENTS, Sent
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess

T = 1_700_000_000_000
TOPIC = "sql.orders-1"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Six records in two partitions; one is no text, one has no key."""
    with BrokerProcess(tmp_path_factory.mktemp("sql"), *NO_RETENTION) as started:
        Commands(started.bootstrap)("topics", "create", TOPIC, "--partitions", "2")
        for partition in range(2):
            records = [Sent(b"k", b"%d" % offset, (("h", b"x"),), T + offset) for offset in range(2)]
            records.append(Sent(None, b"\xff\xfe", (), T + 2))
            CLIENTS["confluent-kafka"].write(started.bootstrap, TOPIC, records, partition=partition)
        yield started


def test_which_topics_a_query_names() -> None:
    topics = {"orders", "orders-2", "my.orders", "lines", "Items"}
    assert topics_named("select * from orders o join `my.orders` using (key)", topics) == ["my.orders", "orders"]
    assert topics_named("select * from `orders-2`, items", topics) == ["Items", "orders-2"]
    assert topics_named("select orderss from x", topics) == []


def of_topic(query: str) -> str:
    return query.replace("TOPIC", f"`{TOPIC}`")


def test_forms_of_output(pipelines: Commands, broker: Any) -> None:
    def ask(query: str, *options: str) -> str:
        return pipelines("sql", "-b", broker.bootstrap, *options, of_topic(query)).out

    query = "SELECT partition, value, key, timestamp FROM TOPIC WHERE partition = 1 ORDER BY offset"
    assert ask(query).splitlines() == [
        "  partition  value    key    timestamp",
        "          1  0        k      2023-11-14 22:13:20",
        "          1  1        k      2023-11-14 22:13:20.001",
        "          1  0xFFFE          2023-11-14 22:13:20.002",
    ]
    rows = list(csv.reader(ask(query, "-o", "csv", "--limit", "2").splitlines()))
    assert rows == [
        ["partition", "value", "key", "timestamp"],
        ["1", "0", "k", "2023-11-14 22:13:20"],
        ["1", "1", "k", "2023-11-14 22:13:20.001"],
    ]
    objects = json.loads(ask(query, "-o", "json", "--text"))
    assert [each["value"] for each in objects][:2] == ["0", "1"]
    assert objects[2]["key"] is None
    lines = ask("SELECT offset FROM TOPIC ORDER BY 1 DESC", "-o", "jsonl").splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [2, 2, 1, 1, 0, 0]
    assert ask("SELECT * FROM TOPIC WHERE offset > 9", "-o", "json") == "[]\n"
    assert ask("SELECT offset FROM TOPIC WHERE offset > 9") == "offset\n"
    cut = pipelines("sql", "-b", broker.bootstrap, "--limit", "2", of_topic("SELECT offset FROM TOPIC"))
    assert len(cut.lines) == 3
    assert cut.err == "Only the first 2 rows are shown: --limit shows more, -o csv or -o jsonl all.\n"


def test_ranges_log_directories_tables_and_mistakes(pipelines: Commands, broker: Any, spark: Any, tmp_path: Path) -> None:
    def ask(query: str, *options: str, code: int = 0) -> Any:
        return pipelines("sql", "-o", "jsonl", *options, of_topic(query), code=code)

    count = "SELECT count(*) AS n FROM TOPIC"
    at = ("-b", broker.bootstrap)
    assert ask(count, *at, "--starting", json.dumps({TOPIC: {"0": 1, "1": -1}})).out == '{"n":2}\n'
    assert ask(count, *at, "--starting", f"@{T + 2}").out == '{"n":2}\n'
    assert ask(count, "--data-dir", os.fspath(broker.data_dir)).out == '{"n":6}\n'
    spark.range(3).selectExpr("'x' topic", "0 partition", "id offset", "binary('v') value").write.parquet(f"{tmp_path}/table")
    assert ask(
        "SELECT string(a.value) v, a.offset FROM archive a JOIN x USING (offset) WHERE offset = 2", "--archive", f"{tmp_path}/table"
    ).out == ('{"v":"v","offset":2}\n')
    assert ask("SELECT count(*) n FROM parquet.`PATH`".replace("PATH", f"{tmp_path}/table"), *at).out == '{"n":3}\n'

    assert ask("SELEC 1", *at, code=1).err == "Error: the query starts with 'SELEC': did you mean SELECT?\n"
    assert ask("/* a note */ list them", *at, code=1).err == "Error: the query starts with 'list': start it with SELECT, WITH or DESCRIBE\n"
    assert ask(" ", *at, code=1).err == "Error: the query is empty: SELECT ... FROM a topic\n"
    assert ask("SELECT * FROM ordres", *at, code=1).err == f"Error: the query names no existing topic: there are {TOPIC}\n"
    assert ask("SELECT * FROM nobody", "--archive", f"{tmp_path}/table", code=1).err == (
        "Error: the query names no existing topic: there are archive, x\n"
    )
    assert "cannot be resolved. Did you mean" in ask("SELECT nonsense FROM TOPIC", *at, code=1).err
    assert ask("SELEC * FROM TOPIC", *at, code=1).err == "Error: Syntax error at or near 'SELEC'.\n"
    assert ask("SELECT 1/0 FROM TOPIC", *at, code=1).err.startswith("Error: Division by zero.")
    assert ask("SELECT key, key FROM TOPIC", *at, code=1).err.startswith("Error: two columns are named key")
    assert "is not a position" in ask(count, "--starting", "soon", code=2).err
    assert "start with 'spark.'" in ask(count, "--conf", "a=b", code=2).err
    assert ask(count, "--data-dir", f"{tmp_path}/none", code=1).err == f"Error: {tmp_path}/none does not exist\n"
    assert "exclude each other" in ask(count, "--data-dir", "a", "--archive", "b", code=2).err
