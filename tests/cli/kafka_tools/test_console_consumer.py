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


def test_an_isolation_level_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """As above."""
    options = ["--bootstrap-server", "localhost:1", "--topic", "orders", "--consumer-property", "isolation.level=foo"]
    assert run_tool("kafka-console-consumer", options) == 1
    words = "Invalid value foo for configuration isolation.level: String must be one of: read_committed, read_uncommitted\n"
    assert capsys.readouterr() == ("", words)


@pytest.mark.parametrize("given", ["abc", "-3", "99999999999999999999"])
def test_an_offset_that_is_none(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As above."""
    options = ["--bootstrap-server", "localhost:1", "--topic", "orders", "--partition", "0", "--offset", given]
    assert run_tool("kafka-console-consumer", options) == 1
    words = f"The provided offset value '{given}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.\n"
    assert capsys.readouterr() == ("", words)
