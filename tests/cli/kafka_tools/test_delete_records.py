"""kafka-delete-records: what stands in the file, and what is said of a partition that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibroker.cli.kafka_tools.main import run_tool
from minibroker.cli.kafka_tools.offsets import offsets_of
from minibroker.testing import BrokerThread


def text_of(partition: object, offset: object) -> str:
    return json.dumps({"partitions": [{"topic": "orders", "partition": partition, "offset": offset}]})


@pytest.mark.parametrize(
    ("partition", "offset", "complaint"),
    [
        (0, 2**63, "Expected `Long` value, received 9223372036854775808"),
        (0, -(2**63) - 1, "Expected `Long` value, received -9223372036854775809"),
        (0, 99999999999999999999, "Expected `Long` value, received 99999999999999999999"),
        (0, "1", 'Expected `Long` value, received "1"'),
        (2**31, 1, "Expected `Integer` value, received 2147483648"),
        (True, 1, "Expected `Integer` value, received true"),
    ],
)
def test_a_number_that_is_none_is_told_before_anything_else(
    partition: object, offset: object, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the words of Kafka 4.3.1's tool; nothing is connected to."""
    file = tmp_path / "given.json"
    file.write_text(text_of(partition, offset))
    assert run_tool("kafka-delete-records", ["--bootstrap-server", "localhost:1", "--offset-json-file", str(file)]) == 1
    assert capsys.readouterr() == ("", complaint + "\n")


def test_the_largest_numbers() -> None:
    assert offsets_of(text_of(2**31 - 1, 2**63 - 1)) == {("orders", 2**31 - 1): 2**63 - 1}
    assert offsets_of(text_of(-(2**31), -(2**63))) == {("orders", -(2**31)): -(2**63)}


def test_a_partition_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "given.json"
    file.write_text(text_of(9, 1))
    with BrokerThread(topics={"orders": 2}) as broker:
        arguments = ["--bootstrap-server", broker.bootstrap_servers, "--offset-json-file", str(file)]
        assert run_tool("kafka-delete-records", arguments) == 0
    name = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"partition: orders-9\terror: {name}: topic orders has no partition 9 (it has 2)"
