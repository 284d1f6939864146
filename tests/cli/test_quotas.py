"""`minibroker quotas`, beside Kafka's ConfigCommand at the same broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Cluster, Commands
from tests.support import java

DEFAULT = "<default>"


def items(cli: Commands, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli("quotas", "describe", *arguments, "-o", "jsonl").lines]


def item(name: str, value: float, *, user: str | None = None, client_id: str | None = None, ip: str | None = None) -> dict[str, Any]:
    return {"user": user, "client_id": client_id, "ip": ip, "name": name, "value": value}


def wait_for(cli: Commands, expected: list[dict[str, Any]], *arguments: str) -> None:
    """Apache Kafka's brokers hear of a change after it was answered."""
    deadline = time.monotonic() + 60
    while items(cli, *arguments) != expected:
        assert time.monotonic() < deadline, items(cli, *arguments)


@pytest.fixture
def _nothing_stays(cli: Commands) -> Iterator[None]:
    yield
    for each in items(cli):
        entity = []
        for part in ("user", "client_id", "ip"):
            option = part.replace("_", "-")
            if each[part] is not None:
                entity += [f"--default-{option}"] if each[part] == DEFAULT else [f"--{option}", each[part]]
        cli("quotas", "alter", *entity, "--delete", each["name"])


@pytest.mark.usefixtures("_nothing_stays")
def test_set_shown_and_removed(cli: Commands) -> None:
    cli("quotas", "alter", "--client-id", "loader", "--set", "producer_byte_rate=1e6", "--set", "request_percentage=12.5")
    cli("quotas", "alter", "--user", "alice", "--default-client-id", "--set", "consumer_byte_rate=2000")
    cli("quotas", "alter", "--user", "alice", "--set", "consumer_byte_rate=3000")
    cli("quotas", "alter", "--default-user", "--set", "controller_mutation_rate=4")
    cli("quotas", "alter", "--ip", "10.0.0.7", "--set", "connection_creation_rate=5")
    of_alice = [item("consumer_byte_rate", 3000, user="alice"), item("consumer_byte_rate", 2000, user="alice", client_id=DEFAULT)]
    of_loader = [item("producer_byte_rate", 1_000_000, client_id="loader"), item("request_percentage", 12.5, client_id="loader")]
    of_address = item("connection_creation_rate", 5, ip="10.0.0.7")
    wait_for(cli, [of_address, *of_loader, item("controller_mutation_rate", 4, user=DEFAULT), *of_alice])
    assert items(cli, "--user", "alice") == of_alice
    assert items(cli, "--user", "alice", "--only") == of_alice[:1]
    assert items(cli, "--user", "alice", "--default-client-id") == of_alice[1:]
    assert items(cli, "--client-id", "loader") == of_loader
    assert items(cli, "--default-client-id", "--only") == []
    assert [line.split() for line in cli("quotas", "describe", "--user", "alice").lines] == [
        ["USER", "CLIENT", "ID", "IP", "NAME", "VALUE"],
        ["alice", "-", "-", "consumer_byte_rate", "3000"],
        ["alice", DEFAULT, "-", "consumer_byte_rate", "2000"],
    ]
    cli("quotas", "alter", "--client-id", "loader", "--delete", "producer_byte_rate", "--set", "request_percentage=20")
    wait_for(cli, [item("request_percentage", 20, client_id="loader")], "--client-id", "loader")


@pytest.mark.usefixtures("_nothing_stays")
def test_a_change_that_is_refused_or_only_tried(cli: Commands) -> None:
    cli("quotas", "alter", "--client-id", "loader", "--set", "producer_byte_rate=5", "--dry-run")
    refused = cli("quotas", "alter", "--client-id", "loader", "--set", "producer_byte_rate=5", "--set", "speed=5", code=1).err
    assert refused == "Error: quotas of client-id loader: Invalid configuration key speed [INVALID_REQUEST]\n"
    wrong = cli("quotas", "alter", "--ip", "::1", "--set", "producer_byte_rate=5", code=1).err
    assert "Invalid configuration key producer_byte_rate" in wrong
    assert cli("quotas", "describe", "--ip", "::1", "--user", "alice", code=1).err.endswith("[INVALID_REQUEST]\n")
    assert items(cli) == []


@pytest.mark.usefixtures("_nothing_stays")
def test_quotas_set_by_config_command_are_listed(cli: Commands, cluster: Cluster) -> None:
    alter = ("--bootstrap-server", cluster.bootstrap, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=7.5")
    entity = ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default")
    java.run_tool(java.CONFIG_COMMAND, *alter, *entity)
    cli("quotas", "alter", "--user", "bob", "--set", "consumer_byte_rate=77")
    quotas = {"user": "bob", "client_id": DEFAULT}
    wait_for(
        cli,
        [item("consumer_byte_rate", 77, user="bob"), item("producer_byte_rate", 1024, **quotas), item("request_percentage", 7.5, **quotas)],
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alter", "--set", "producer_byte_rate=1"], "whose quotas?"),
        (["alter", "--user", "alice"], "nothing to alter"),
        (["alter", "--user", "alice", "--default-user", "--delete", "a"], "--user and --default-user exclude each other"),
        (["describe", "--client-id", "a", "--default-client-id"], "--client-id and --default-client-id exclude each other"),
        (["alter", "--user", "alice", "--set", "producer_byte_rate"], "'producer_byte_rate' is not NAME=VALUE"),
        (["alter", "--user", "alice", "--set", "producer_byte_rate=much"], "'much' is not a number above 0"),
        (["alter", "--user", "alice", "--set", "producer_byte_rate=nan"], "'nan' is not a number above 0"),
        (["alter", "--user", "alice", "--set", "a=1", "--delete", "a"], "a: set and deleted at once"),
    ],
)
def test_usage(offline: Commands, arguments: list[str], words: str) -> None:
    assert words in offline("quotas", *arguments, code=2).err
