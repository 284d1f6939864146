"""Apache Kafka in the place of the broker that a schedule of faults is done to: requests fail by a proxy, and the process is killed.

What only a minibroker can do (a leader that moves at once, a high watermark that is held) does not happen; the schedule says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from minibroker.client.client import Client
from minibroker.client.topics import create_topics
from minibroker.testing.given_cluster import GivenCluster
from minibroker.testing.options import BrokerError
from minibroker.testing.request_log import RequestLog
from minibroker.testing.wire import FoundRecord
from tests.support.faulting_proxy import FaultingProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port

_NONE_OF_KAFKAS: Final = ("leaders.", "nodes.", "high_watermark.")
_BACK: Final = ("leaders.give_back", "nodes.start", "high_watermark.release")  #: what did not happen is not missed


class FaultedKafka:
    """As a BrokerProcess, as far as tests/support/fault_round.py needs one."""

    output = ""  #: Kafka's own words are no complaint

    def __init__(self, folder: Path, topics: Mapping[str, int], config: Mapping[str, Any]) -> None:
        port = free_port()
        self._proxy = FaultingProxy(0, port)
        address = f"127.0.0.1:{self._proxy.port}"
        settings = {name: str(value) for name, value in config.items()} | {
            "advertised.listeners": f"PLAINTEXT://{address}",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
        }
        self._kafka = KafkaProcess(folder, settings=settings, port=port)
        self.bootstrap_servers = address
        self._given = GivenCluster(f"127.0.0.1:{port}")
        self.data_dir = self._kafka.data_dir
        with Client(address) as client:
            for name, partitions in topics.items():
                create_topics(client, [name], partition_count=partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kafka.__exit__()
        self._proxy.close()

    def records(self, topic: str, /) -> list[FoundRecord]:
        """What read_committed reads."""
        return self._given.records(topic)

    @property
    def request_log(self) -> RequestLog:
        """What was asked since it was last killed."""
        return RequestLog(self._proxy.log)

    def kill(self) -> None:
        self._kafka.kill()
        self._proxy.log = []

    def start(self) -> None:
        self._kafka.start()

    def _execute(self, command: str, arguments: dict[str, Any], /) -> Any:
        """As the lab does."""
        match command:
            case "faults.inject":
                return {"id": self._proxy.inject(arguments["rule"])}
            case "faults.state":
                return {"hits": self._proxy.hits(arguments["id"])}
            case "faults.remove":
                return self._proxy.remove(arguments["id"])
            case "faults.clear":
                return self._proxy.clear()
            case "leaders.describe":
                return {"leader": 1}
            case _ if command in _BACK:
                return None
            case _ if command.startswith(_NONE_OF_KAFKAS):
                raise BrokerError("not on Apache Kafka")
        raise NotImplementedError(command)
