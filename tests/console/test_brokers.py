"""The console of a simulated cluster shows all of its brokers."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka import Producer

from tests.console.scene import get, post
from tests.console.served import ServedConsole


def test_pages_show_the_whole_cluster(tmp_path: Path) -> None:
    with ServedConsole(tmp_path, "--brokers", "3", has_lab=False) as served:
        addresses = re.findall(r"PLAINTEXT://(\S+?),", served.broker.output)
        assert len(addresses) == 3
        post(served.url, "topics/create", name="orders", partitions="6", replication_factor="3")
        producer = Producer({"bootstrap.servers": addresses[0]})
        for index in range(6):
            producer.produce("orders", b"value", partition=index)
        assert producer.flush(30) == 0

        overview = get(served.url, "/index.json")
        assert overview["node_ids"] == [1, 2, 3]
        assert [each["address"] for each in overview["listeners"]] == addresses
        partitions = get(served.url, "/topic.json?name=orders")["partitions"]
        assert {each["leader"] for each in partitions} == {1, 2, 3}
        assert [each["log_end_offset"] for each in partitions] == [1] * 6
        assert {each["node"] for each in get(served.url, "/requests.json?api=Produce")["requests"]} == {1, 2, 3}
        assert len(get(served.url, "/clients.json?q=rdkafka")["clients"]) >= 3
        apis = {each["api"]: each["count"] for each in get(served.url, "/charts.json")["apis"]}
        assert apis["Produce"] >= 3
        for index in range(6):
            assert post(served.url, "produce", topic="orders", partition=str(index), value="x")["base_offset"] == 1
