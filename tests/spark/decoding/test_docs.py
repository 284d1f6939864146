"""The examples of docs/decoding.md run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc_tools")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from minibroker.spark import session as spark_session
from tests.spark.decoding.test_from_registry import ORDER
from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Producer

PAGE = Path(__file__).parents[3] / "docs" / "decoding.md"


def test_every_example(
    spark: Any,
    broker: BrokerProcess,
    url: str,
    confluent: SchemaRegistryClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[Any] = []

    def session(_name: str, *, packages: Any) -> Any:
        asked.append(packages)
        return spark

    monkeypatch.setattr(spark_session, "kafka_session", session)
    value = AvroSerializer(confluent, json.dumps(ORDER))({"item": "pears"}, SerializationContext("orders", MessageField.VALUE))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", value)
    producer.flush()
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if "example.com" in example:
            compile(example, "example", "exec")
            continue
        here = example.replace("localhost:9092", broker.bootstrap).replace("http://localhost:8081", url)
        exec(here.replace("/archives", str(tmp_path / "archives")), names)  # noqa: S102  that is what it is for
    assert capsys.readouterr().out.count("|     0|pears|") == 2
    assert asked == [[spark_session.spark_package("spark-avro")]]
