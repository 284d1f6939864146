"""The files in config/: they load without a warning, a broker starts with them, and each does what it says at its head."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.sources import from_file
from minibroker.errors import InvalidSessionTimeout
from minibroker.schemas import k00_produce, k10_find_coordinator, k22_init_producer_id
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import enter
from tests.support.losing_files import LosingFiles, Loss

FOLDER = Path(__file__).parents[2] / "config"
FILES = sorted(FOLDER.glob("*.properties"))


def properties(name: str) -> dict[str, str]:
    """Of a file, without where the broker is."""
    return {key: value for key, value in from_file(FOLDER / name).items() if key not in {"listeners", "log.dirs"}}


def test_config_folder_has_three_files() -> None:
    assert [file.stem for file in FILES] == ["durable", "server", "test"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_file_loads_without_warnings_or_duplicates(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    config = BrokerConfig.load(file=file)
    assert not caplog.records
    assert config.unknown == {}
    lines = [line.partition("=")[0] for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert sorted(lines) == sorted(config.static.keys() - {"broker.id"})  # which stands for node.id


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_broker_starts_with_each_file_without_warnings(file: Path, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--config", str(file)) as broker:
        assert broker.output.count("\n") == 1, broker.output
        assert broker.output.startswith("minibroker ready: PLAINTEXT://")


def test_server_properties_contain_the_defaults() -> None:
    said = from_file(FOLDER / "server.properties")
    assert {name: text for name, text in said.items() if text != BROKER_PROPERTIES[name].default} == {"log.dirs": "data"}


@pytest.mark.parametrize("name", ["test.properties", "durable.properties"])
def test_other_files_contain_only_changed_values(name: str) -> None:
    assert [key for key, text in properties(name).items() if text == BROKER_PROPERTIES[key].default] == []


def test_test_properties_use_a_free_local_port() -> None:
    (listener,) = BrokerConfig(from_file(FOLDER / "test.properties")).listeners
    assert (listener.host, listener.port) == ("127.0.0.1", 0)


def test_test_properties_limit_sizes_and_delays() -> None:
    broker = BrokerInMemory(config=properties("test.properties"))
    broker.ask(k10_find_coordinator.Request(key_type=0, coordinator_keys=["g"]))
    assert len(broker.cluster.topics["__consumer_offsets"].partitions) == 5

    broker.cluster.create_topic("old", partition_count=1, configs={"retention.ms": "1000", "segment.bytes": "100"})
    for number in range(3):
        broker.append("old", 0, records(1, first=number, timestamp=broker.clock.now_ms()))
    folder = broker.folder / "old-0"
    assert len(list(folder.glob("*.log"))) == 3
    broker.clock.advance(1_500 + 1)
    assert broker.cluster.partition("old", 0).log.log_start_offset == 3
    broker.clock.advance(1)
    assert [file.name for file in folder.glob("*.log*")] == [f"{3:020}.log"], "deleted files do not wait"

    assert enter(broker, session_ms=300).error_code == 0
    assert enter(BrokerInMemory(), session_ms=300).error_code == InvalidSessionTimeout.code


def test_test_properties_abort_idle_transactions_quickly() -> None:
    broker = BrokerInMemory({"a": 1}, properties("test.properties"))
    broker.ask(k10_find_coordinator.Request(key_type=1, coordinator_keys=["t"]))
    answer = broker.ask(k22_init_producer_id.Request(transactional_id="t", transaction_timeout_ms=1_000))
    batch = records(1, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch, base_sequence=0, is_transactional=True)
    produced = produce(broker, batch, transactional_id="t")
    assert produced.error_code == 0
    log = broker.cluster.partition("a", 0).log
    assert (log.last_stable_offset, log.log_end_offset) == (0, 1)
    broker.clock.advance(1_000 + 200)
    assert (log.last_stable_offset, log.log_end_offset) == (2, 2), "aborted, with its marker"


@pytest.mark.parametrize("name", ["durable.properties", "server.properties"])
def test_durable_properties_survive_a_power_loss(name: str, tmp_path: Path) -> None:
    """And the defaults do not, or this test would show nothing."""
    before, after = tmp_path / "before", tmp_path / "after"
    disk = LosingFiles(before)
    broker = BrokerInMemory(config=properties(name), folder=before, files=disk)
    broker.cluster.create_topic("a", partition_count=1)
    assert produce(broker, records(7)).error_code == 0
    disk.lose_power(after, Random(1), Loss.STRICT)

    again = BrokerInMemory(config=properties(name), folder=after)
    found = again.cluster.partition("a", 0).log.log_end_offset
    assert found == (7 if name == "durable.properties" else 0)


def produce(broker: BrokerInMemory, batch: bytes, transactional_id: str | None = None) -> k00_produce.PartitionResult:
    """Acknowledged by all; version 12 adds its partitions to the transaction by itself."""
    topic = k00_produce.Topic(name="a", partition_data=[k00_produce.Partition(index=0, records=batch)])
    pending = broker.begin(k00_produce.Request(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic]), 12)
    broker.clock.advance(0)
    answer: k00_produce.PartitionResult = pending.answer().responses[0].partition_responses[0]
    return answer
