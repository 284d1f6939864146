"""`api-versions`: what brokers say they serve, and what we say without one."""

from __future__ import annotations

import json

from tests.cli.conftest import Cluster, Commands


def test_every_api_of_a_broker(cli: Commands, cluster: Cluster) -> None:
    rows = [json.loads(line) for line in cli("api-versions", "-o", "jsonl").lines]
    assert list(rows[0]) == ["node_id", "address", "api_key", "name", "min_version", "max_version", "usable"]
    by_name = {row["name"]: row for row in rows}
    assert {row["address"].rpartition(":")[2] for row in rows} == {cluster.bootstrap.rpartition(":")[2]}
    oldest = 4 if cluster.kind == "kafka" else 0
    assert (by_name["Fetch"]["api_key"], by_name["Fetch"]["min_version"], by_name["Fetch"]["usable"]) == (1, oldest, 18)
    assert [row["api_key"] for row in rows] == sorted(row["api_key"] for row in rows)
    if cluster.kind == "kafka":
        assert by_name["UnregisterBroker"]["api_key"] == 64
        assert by_name["UnregisterBroker"]["usable"] is None


def test_other_forms(cli: Commands) -> None:
    assert cli("api-versions").lines[0].split() == [
        "NODE",
        "ID",
        "ADDRESS",
        "API",
        "KEY",
        "NAME",
        "MIN",
        "VERSION",
        "MAX",
        "VERSION",
        "USABLE",
    ]
    assert "Metadata" in cli("api-versions", "-o", "name").lines


def test_features(cli: Commands, cluster: Cluster) -> None:
    features = {item["name"]: item for item in json.loads(cli("api-versions", "--features", "-o", "json").out)}
    assert sorted(features) == [
        "eligible.leader.replicas.version",
        "group.version",
        "kraft.version",
        "metadata.version",
        "share.version",
        "streams.version",
        "transaction.version",
    ]
    assert features["transaction.version"]["finalized"] == 2
    assert features["metadata.version"]["finalized"] == features["metadata.version"]["max_version"]


def test_ours_option_matches_a_running_broker(cli: Commands, cluster: Cluster) -> None:
    ours = [json.loads(line) for line in cli("api-versions", "--ours", "-o", "jsonl").lines]
    assert list(ours[0]) == ["api_key", "name", "min_version", "max_version", "flexible_since"]
    if cluster.kind == "minibroker":
        served = {row["api_key"]: row["max_version"] for row in map(json.loads, cli("api-versions", "-o", "jsonl").lines)}
        assert {item["api_key"]: item["max_version"] for item in ours} == served


def test_ours_option_needs_no_broker(offline: Commands) -> None:
    assert "Produce" in offline("api-versions", "--ours", "-o", "name").lines
