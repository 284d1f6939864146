"""kafka-console-consumer: the properties of its consumer."""

from __future__ import annotations

import pytest

from minibroker.cli.kafka_tools.main import run_tool


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("5s", "5s for configuration auto.commit.interval.ms: Not a number of type INT"),
        ("", " for configuration auto.commit.interval.ms: Not a number of type INT"),
        ("5_000", "5_000 for configuration auto.commit.interval.ms: Not a number of type INT"),
        ("2147483648", "2147483648 for configuration auto.commit.interval.ms: Not a number of type INT"),
        ("-1", "-1 for configuration auto.commit.interval.ms: Value must be at least 0"),
    ],
)
def test_an_interval_of_commits_that_is_none(given: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of Kafka 4.3.1's tool; nothing is connected to."""
    options = ["--bootstrap-server", "localhost:1", "--topic", "orders", "--group", "g"]
    assert run_tool("kafka-console-consumer", [*options, "--consumer-property", f"auto.commit.interval.ms={given}"]) == 1
    assert capsys.readouterr() == ("", f"Invalid value {complaint}\n")
