"""Commands: their arguments are checked before anything is done, and what is wrong is said in one line."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.testing import BrokerError
from minibroker.testing.lab.declaration import OperationTable


def move(topic: str, partition: int, to: int | None = None, share: float = 1.0, rule: dict[str, Any] | None = None) -> list[Any]:
    """Move a partition.

    And more of it.
    """
    return [topic, partition, to, share, rule]


@pytest.fixture
def table() -> OperationTable:
    table = OperationTable()
    table.add("leaders.move", move)
    return table


def test_command_receives_its_arguments(table: OperationTable) -> None:
    assert table.call("leaders.move", {"topic": "orders", "partition": 0, "to": 2}) == ["orders", 0, 2, 1.0, None]
    assert table.call("leaders.move", {"topic": "orders", "partition": 0, "share": 1, "rule": {"api": "Fetch"}})[3:] == [
        1,
        {"api": "Fetch"},
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("leaders.mov", {}, r"^there is no command 'leaders.mov': did you mean leaders.move\?$"),
        ("zzz", {}, r"^there is no command 'zzz'$"),
        ("leaders.move", {"topic": "orders"}, r"^leaders.move: argument 'partition' is missing$"),
        (
            "leaders.move",
            {"topik": "orders"},
            r"^leaders.move: there is no argument 'topik' \(arguments: topic, partition, to, share, rule\)$",
        ),
        ("leaders.move", {"topic": 1, "partition": 0}, r"^leaders.move: topic must be of type str, got 1$"),
        ("leaders.move", {"topic": "orders", "partition": True}, r"^leaders.move: partition must be of type int, got True$"),
        ("leaders.move", {"topic": "orders", "partition": "0"}, r"^leaders.move: partition must be of type int, got '0'$"),
        ("leaders.move", {"topic": "orders", "partition": 0, "to": "x"}, r"^leaders.move: to must be of type int \| None, got 'x'$"),
        ("leaders.move", {"topic": "orders", "partition": 0, "share": True}, r"^leaders.move: share must be of type float, got True$"),
        ("leaders.move", {"topic": "orders", "partition": 0, "rule": []}, r"^leaders.move: rule must be of type dict"),
    ],
)
def test_errors_are_one_line(table: OperationTable, name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokerError, match=message):
        table.call(name, arguments)


def test_commands_describe_their_purpose(table: OperationTable) -> None:
    (found,) = table.describe()
    assert found["command"] == "leaders.move"
    assert found["purpose"] == "Move a partition."
    assert found["arguments"]["topic"] == "str"
    assert found["arguments"]["to"] == "int | None = None"
