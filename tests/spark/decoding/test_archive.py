"""`minibroker spark archive --registry`: decoded values beside the bytes, of a subject that evolves between two runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc_tools")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from minibroker.spark.archive import archive, read_archive
from minibroker.spark.failures import SourceError
from tests.cli.conftest import Commands
from tests.spark.decoding.test_from_registry import EVOLVED, ORDER
from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Producer


def test_two_runs(
    spark: Any, pipelines: Commands, broker: BrokerProcess, url: str, confluent: SchemaRegistryClient, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def produce(*values: bytes) -> None:
        for value in values:
            producer.produce("sales", value, partition=0)
        producer.flush()

    def serialized(schema: Any, value: Any) -> bytes:
        found: bytes = AvroSerializer(confluent, json.dumps(schema))(value, SerializationContext("sales", MessageField.VALUE))
        return found

    path = str(tmp_path / "archive")
    command = ("archive", "sales", "--to", path, "-b", broker.bootstrap, "--registry", url)
    produce(serialized(ORDER, {"item": "pears"}))
    pipelines(*command)
    last = serialized(EVOLVED, {"item": "plums", "count": 3})
    produce(b"no schema", last)
    assert "a value has no schema id, which is not one of those" in pipelines(*command, code=1).err
    pipelines(*command, "--undecodable", "null")

    table = spark.read.option("mergeSchema", "true").parquet(path).orderBy("offset").select("decoded")
    rows = [row.decoded and row.decoded.asDict() for row in table.collect()]
    assert rows == [{"count": None, "item": "pears"}, None, {"count": 3, "item": "plums"}]
    assert read_archive(spark, path).where("offset = 2").collect()[0].value == last
    with pytest.raises(SourceError, match="an archive has a column Topic: give another name"):
        archive(spark, broker.bootstrap, str(tmp_path / "other"), ["sales"], columns=lambda: {"Topic": spark.range(1).id})


def test_mistakes_before_spark_starts(pipelines: Commands, broker: BrokerProcess, url: str, tmp_path: Path) -> None:
    common = ("archive", "--to", str(tmp_path / "archive"), "-b", broker.bootstrap)
    assert "Subject 'x-value' not found" in pipelines(*common, "x", "--registry", url, code=1).err
    assert "no schema registry at http://127.0.0.1:1: Connection refused" in pipelines(*common, "x", "-r", "127.0.0.1:1", code=1).err
    for options, words in [
        (("x", "--undecodable", "null"), "--undecodable needs --registry"),
        (("x", "--value-subject", "y"), "--value-subject needs --registry"),
        (("x", "--registry-user", "y"), "--registry-user needs --registry"),
        (("x", "y", "--registry", url), "--registry needs --value-subject, unless exactly one TOPIC is given"),
    ]:
        assert words in pipelines(*common, *options, code=2).err
