"""SIGKILL while ten clients register schemas, and while the topic is compacted: nothing that was acknowledged is lost or given twice."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Consumer
from tests.support.ports import free_port
from tests.support.soak import times

CLIENTS = 10
PER_ROUND = 60  #: registrations after which the broker is killed
#: Segments are closed soon, and compacted at once.
COMPACTING = ("--set", "log.roll.ms=100", "--set", "log.cleaner.backoff.ms=50", "--set", "log.cleaner.min.cleanable.ratio=0.01")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--registry-port", str(free_port()), *COMPACTING) as broker:
        yield broker


def ask(broker: BrokerProcess, method: str, path: str, body: Any = None) -> Any:
    """The JSON of a response; None if the broker is gone before its answer."""
    found = re.search(r"registry http://(\S+?):(\d+)", broker.output)
    assert found is not None
    connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        data = json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    assert answer.status == 200, data
    return data


class Round:
    """Clients that register until one of them kills the broker. One schema in four is a version of a subject that all share."""

    def __init__(self, broker: BrokerProcess, number: int) -> None:
        self.acknowledged: dict[str, tuple[str, int]] = {}  #: of each schema: its subject and id
        self._broker, self._number = broker, number
        self._is_killed = threading.Event()
        threads = [threading.Thread(target=self._run, args=(each,)) for each in range(CLIENTS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _run(self, client: int) -> None:
        index = 0
        while not self._is_killed.is_set():
            index += 1
            name = f"F_{self._number}_{client}_{index}"
            subject = "shared" if index % 4 == 0 else name
            answer = ask(self._broker, "POST", f"/subjects/{subject}/versions", {"schema": fixed(name)})
            if answer is None:
                return
            self.acknowledged[name] = subject, answer["id"]
            ask(self._broker, "PUT", f"/config/client-{client}", {"compatibility": "NONE"})  # leaves a record to compact
            if len(self.acknowledged) >= PER_ROUND and not self._is_killed.is_set():
                self._is_killed.set()
                self._broker.kill()


def fixed(name: str) -> str:
    return json.dumps({"type": "fixed", "name": name, "size": 4}, separators=(",", ":"))


def records_and_end(broker: BrokerProcess) -> tuple[int, int]:
    """How many records are in the topic, and the offset after them."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition("_schemas", 0, 0)])
    count = 0
    while (message := consumer.poll(30)) is not None and message.error() is None:
        count += 1
    end: int = consumer.get_watermark_offsets(TopicPartition("_schemas", 0), timeout=30)[1]
    consumer.close()
    return count, end


def is_compacted(broker: BrokerProcess) -> bool:
    count, end = records_and_end(broker)
    return count < end * 9 // 10


def test_what_was_registered_survives_kills_and_compaction(broker: BrokerProcess) -> None:
    ask(broker, "PUT", "/config/shared", {"compatibility": "NONE"})
    acknowledged: dict[str, tuple[str, int]] = {}
    rounds = times(3, soak=20)
    for number in range(rounds):
        acknowledged |= Round(broker, number).acknowledged
        broker.restart()
    assert len(acknowledged) >= rounds * PER_ROUND
    ids = {name: schema_id for name, (_, schema_id) in acknowledged.items()}
    assert len(set(ids.values())) == len(ids)
    assert becomes(lambda: is_compacted(broker))
    broker.kill()
    broker.restart()
    listed = {each["schema"]: each for each in ask(broker, "GET", "/schemas")}
    assert len({each["id"] for each in listed.values()}) == len(listed)
    for name, (subject, schema_id) in acknowledged.items():
        found = listed[fixed(name)]
        assert (found["subject"], found["id"]) == (subject, schema_id)
    shared = [each for each in listed.values() if each["subject"] == "shared"]
    assert [each["version"] for each in shared] == [*range(1, len(shared) + 1)]
    assert [each["id"] for each in shared] == sorted(each["id"] for each in shared)
