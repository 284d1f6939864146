"""`minibroker cluster` on a broker of ours and Apache Kafka, and on several brokers, one of them stopped."""

from __future__ import annotations

import json
from collections.abc import Callable

import yaml

from minibroker.testing import BrokerThread
from tests.cli.conftest import Commands


def test_one_broker(cli: Commands, fresh: Callable[..., str]) -> None:
    fresh(partitions=3)
    found = json.loads(cli("cluster", "-o", "json").out)
    topics = json.loads(cli("topics", "list", "-o", "json").out)
    assert (found["topics"], found["partitions"]) == (len(topics), sum(topic["partitions"] for topic in topics))
    assert (found["offline_partitions"], found["under_replicated_partitions"]) == (0, 0)
    (broker,) = found["brokers"]
    assert broker["address"].endswith(f":{cli.bootstrap.rpartition(':')[2]}")
    assert broker["leads"] == broker["replicas"] >= 3
    assert broker["controller"] is True
    assert yaml.safe_load(cli("cluster", "-o", "yaml").out) == found
    assert json.loads(cli("cluster", "-o", "jsonl").out) == found
    lines = cli("cluster").lines
    assert lines[0].startswith(f"Cluster {found['cluster_id']}: {found['topics']} topic")
    assert lines[1].split()[:4] == ["ID", "ADDRESS", "RACK", "CONTROLLER"]


def test_a_stopped_broker_shows_in_the_counts() -> None:
    with BrokerThread(brokers=3, topics={"orders": 3}, config={"default.replication.factor": 3}) as broker:
        broker.nodes.stop(3)
        cli = Commands(broker.bootstrap_servers)
        found = json.loads(cli("cluster", "-o", "json").out)
        assert [each["id"] for each in found["brokers"]] == [1, 2]
        assert found["under_replicated_partitions"] >= 3
        assert sum(each["leads"] for each in found["brokers"]) >= 3
        assert f", {found['under_replicated_partitions']} under-replicated partitions" in cli("cluster").lines[0]


def test_empty_tables_say_why() -> None:
    with BrokerThread() as broker:
        cli = Commands(broker.bootstrap_servers)
        empty = cli("topics", "list")
        assert (empty.lines, empty.err) == (
            ["NAME  PARTITIONS  REPLICATION FACTOR  TOPIC ID"],
            "No topics. 'minibroker topics create NAME' creates one.\n",
        )
        assert cli("topics", "list", "-o", "json").err == ""
        assert cli("groups", "list").err.startswith("No groups.")
        for command, words in (
            (("topics", "describe"), "No topics. "),
            (("groups", "describe"), "No groups. "),
            (("transactions", "describe"), "No transactional ids."),
            (("configs", "list", "groups"), "No groups with configs."),
            (("log-dirs", "--partitions"), "No partitions."),
        ):
            assert cli(*command).err.startswith(words), command
