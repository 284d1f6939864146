"""Spark reads, streams and writes by SASL_SSL with client certificates, and shows no secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import minibroker
from minibroker.client.errors import SecurityFailed, SecurityPart
from minibroker.spark.archive.batch import archive
from minibroker.spark.client_config import kafka_options
from minibroker.spark.replay.job import replay
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.testing import BrokerThread
from tests.cli.conftest import Commands

DOCS = Path(__file__).parents[2] / "docs"
PASSWORD = "s3cret of alice"
TOPICS = [
    "alice allow ALL TOPIC *",
    "alice allow ALL GROUP *",
    "alice allow ALL TRANSACTIONAL_ID *",
    "alice allow ALL CLUSTER kafka-cluster",
]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with minibroker.secure(users={"alice": PASSWORD}, acls=TOPICS, mtls=True, topics={"orders": 2, "written": 1}) as broker:
        for number in range(100):
            broker.produce("orders", f"value {number}", key=f"{number}")
        yield broker


@pytest.fixture
def config(broker: BrokerThread) -> dict[str, str]:
    """As for any client of Java, with SCRAM."""
    found: dict[str, str] = broker.client_config("java", user="alice", mechanism="SCRAM-SHA-512")
    return found


def test_pipelines(spark: Any, broker: BrokerThread, config: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = ClusterSource(broker.bootstrap_servers, client_config=config)
    path = str(tmp_path / "archive")
    assert sum(run.record_count for run in archive(spark, source, path, ["orders"]).runs) == 100
    result = replay(spark, source=path, bootstrap_servers=broker.bootstrap_servers, name="again", topic="copies", client_config=config)
    assert (result.records, result.mapping(spark).count() > 0) == (100, True)
    assert len(broker.records("copies")) == 100
    assert PASSWORD not in repr(result)
    assert PASSWORD not in str(result.as_dict())

    options = kafka_options(config)
    assert options["kafka.bootstrap.servers"] == broker.bootstrap_servers
    frame = spark.readStream.format("kafka").options(**options).option("subscribe", "orders").option("startingOffsets", "earliest").load()
    writing = (
        frame.select("key", "value").writeStream.format("kafka").options(**options).option("topic", "written").trigger(availableNow=True)
    )
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(120)
    assert sorted(each.text for each in broker.records("written")) == sorted(f"value {number}" for number in range(100))

    batch = spark.read.format("kafka").options(**options).option("subscribe", "orders").load()
    batch.explain(True)
    plans = [str(batch._jdf.queryExecution()), str(frame._jdf.queryExecution()), str(query)]
    out, err = capfd.readouterr()
    for text in (*plans, out, err):
        assert PASSWORD not in text
        assert "PRIVATE KEY" not in text


def test_commands(pipelines: Commands, broker: BrokerThread, config: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "".join(f"{name}={text.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}\n" for name, text in config.items())
    )
    common = ("-b", broker.bootstrap_servers, "--command-config", str(file))
    (topic,) = json.loads(pipelines("report", "orders", *common, "-o", "json").out)["topics"]
    assert sum(each["contents"]["records"] for each in topic["partitions"]) == 100
    assert json.loads(pipelines("sql", "SELECT count(*) AS n FROM orders", *common, "-o", "json").out) == [{"n": 100}]
    path = str(tmp_path / "archive")
    pipelines("archive", "orders", "--to", path, *common)
    assert "Equal: 100 records" in pipelines("audit", path, "--topic", "orders", *common).out
    file.write_text(file.read_text().replace(PASSWORD, "wrong"))
    failed = pipelines("report", "orders", *common, code=1).err
    assert failed.count("\n") == 1
    assert "wrong" not in failed.replace("is wrong", "")


def test_errors_of_a_login(broker: BrokerThread, config: dict[str, str]) -> None:
    wrong = config | {"sasl.jaas.config": config["sasl.jaas.config"].replace(PASSWORD, "nonsense")}
    with pytest.raises(SecurityFailed) as refused:
        ClusterSource(broker.bootstrap_servers, client_config=wrong).resolve(["orders"])
    assert refused.value.part is SecurityPart.PASSWORD
    assert "nonsense" not in str(refused.value)


def test_the_recipe_of_the_page(
    spark: Any, broker: BrokerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run docs/security.md with this broker, whose listener needs a client certificate as well."""
    (recipe,) = re.findall(r"### From Spark.*?```python\n(.*?)```", (DOCS / "security.md").read_text(), re.DOTALL)
    monkeypatch.setattr("minibroker.spark.session.kafka_session", lambda _: spark)
    monkeypatch.chdir(tmp_path)
    given = broker.client_config("java", user="alice", mechanism="SCRAM-SHA-512")
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.pem").write_text(given["ssl.truststore.certificates"])
    identity = {name: text for name, text in given.items() if name.startswith("ssl.keystore.")}
    recipe = recipe.replace("localhost:9093", broker.bootstrap_servers).replace("alice-secret", PASSWORD)
    exec(recipe.replace("config = {", f"config = {identity!r} | {{"), {})  # noqa: S102  that is what it is for
    assert "|orders|" in capsys.readouterr().out
    assert (tmp_path / "archive").is_dir()
