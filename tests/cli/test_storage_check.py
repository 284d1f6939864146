"""`minibroker storage check`: exit codes, the three outputs, several processes, one partition, a broker that runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minibroker.cli import storage_check
from minibroker.cli.main import main
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.broker_process import BrokerProcess

PARTITIONS = 6


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    broker = BrokerInMemory(topics={"orders": PARTITIONS}, config={"log.segment.bytes": "2000"}, folder=folder)
    for number in range(120):
        broker.append("orders", number % PARTITIONS, records(5))
    broker.cluster.close()
    return folder


def run(*arguments: str | Path, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(main, ["storage", "check", *map(str, arguments)])


def damage(data: Path) -> Path:
    path = min((data / "orders-2").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return path


def test_a_healthy_directory(data: Path) -> None:
    result = run(data)
    assert result.exit_code == 0
    assert result.stdout.startswith("7 partitions, ")
    assert result.stdout.rstrip().endswith("0 errors, 0 warnings")
    assert result.stderr == ""


def test_damage_is_reported_with_file_and_position(data: Path) -> None:
    path = damage(data)
    result = run(data)
    assert result.exit_code == 1
    assert f"error: {path} at position " in result.stdout
    assert "has a wrong CRC" in result.stdout
    assert result.stdout.rstrip().endswith("1 error, 0 warnings")


def test_warnings_do_not_fail(data: Path) -> None:
    (data / "orders-1/partition.metadata").unlink()
    result = run(data)
    assert result.exit_code == 0
    assert result.stdout.rstrip().endswith("0 errors, 1 warning")


def test_records_of_the_coordinators(tmp_path: Path) -> None:
    from minibroker.coordinator.stored_topic import partition_of
    from minibroker.schemas import k10_find_coordinator, k22_init_producer_id

    broker = BrokerInMemory(config={"transaction.state.log.num.partitions": "5"}, folder=tmp_path / "data")
    broker.ask(k10_find_coordinator.Request(key_type=k10_find_coordinator.TRANSACTION, coordinator_keys=["writer"]))
    for _ in range(3):
        answer = broker.ask(k22_init_producer_id.Request(transactional_id="writer", transaction_timeout_ms=1000))
        assert answer.error_code == 0
    broker.services.coordinators.stop()
    broker.cluster.close()
    result = run(broker.folder)
    assert (result.exit_code, result.stdout.rstrip().endswith("0 errors, 0 warnings")) == (0, True)
    index = partition_of("writer", 5)
    right, wrong = (broker.folder / f"__transaction_state-{each % 5}" / f"{0:020}.log" for each in (index, index + 1))
    wrong.write_bytes(right.read_bytes())
    result = run(broker.folder, "-o", "json")
    found = [each["problem"] for each in json.loads(result.stdout)["findings"] if each["file"] == str(wrong)]
    words = f"transactional id writer belongs in partition {index} of 5, where it is looked for"
    assert [f"the record at offset {offset} is wrong: {words}" for offset in range(3)] == [each for each in found if "record at" in each]
    assert result.exit_code == 1
    assert words in run(wrong.parent).stdout  # the metadata log beside it tells how many partitions there are
    shutil.rmtree(broker.folder / "__cluster_metadata-0")
    assert "belongs in partition" not in run(wrong.parent).stdout


def test_json(data: Path) -> None:
    path = damage(data)
    result = run(data, "-o", "json")
    assert result.exit_code == 1
    output = json.loads(result.stdout)
    assert (output["errors"], output["warnings"], output["partitions"], output["directories"]) == (1, 0, PARTITIONS + 1, 1)
    assert output["bytes"] == sum(each.stat().st_size for each in data.glob("*/*.log"))
    (finding,) = output["findings"]
    assert finding["file"] == str(path)
    assert finding["position"] > 0
    lines = [json.loads(line) for line in run(data, "-o", "jsonl").stdout.splitlines()]
    assert lines[0] == finding
    assert (lines[1]["severity"], lines[1]["errors"]) == ("summary", 1)


def test_several_processes_find_the_same(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(data)
    alone = json.loads(run(data, "-o", "json", "--jobs", "1").stdout)
    monkeypatch.setattr(storage_check, "ALONE_BYTES", 0)
    monkeypatch.setattr(storage_check, "GROUP_SEGMENTS", 3)
    result = run(data, "-o", "json", "--jobs", "3", "--progress", "--deep")
    together = json.loads(result.stdout)
    assert alone["findings"] == together["findings"]
    assert alone | {"seconds": 0} == together | {"seconds": 0}
    assert "MB/s" in result.stderr


def test_a_process_that_dies_is_no_clean_bill(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_check, "ALONE_BYTES", 0)
    monkeypatch.setattr(storage_check, "GROUP_SEGMENTS", 1)
    monkeypatch.setattr("minibroker.server.worker_processes._START", "raise SystemExit(3)")
    result = run(data, "--jobs", "2")
    assert result.exit_code == 1
    assert result.stderr == "Error: the check is not complete: the worker process is gone, status 3; try --jobs 1\n"


def test_one_partition(data: Path) -> None:
    path = damage(data)
    assert run(data / "orders-0").exit_code == 0
    result = run(data / "orders-2")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"error: {path.resolve()} at position ")


def test_the_directories_of_a_configuration(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data}\n")
    assert run("-c", config).stdout.startswith("7 partitions, ")
    assert run(env={"KAFKA_LOG_DIRS": str(data)}).stdout.startswith("7 partitions, ")


def test_a_configuration_names_the_directory_of_the_metadata_log_too(tmp_path: Path) -> None:
    log_dir, metadata_dir = tmp_path / "logs", tmp_path / "metadata"
    metadata_dir.mkdir()
    broker = BrokerInMemory(topics={"orders": 1}, config={"metadata.log.dir": str(metadata_dir)}, folder=log_dir)
    broker.append("orders", 0, records(5))
    broker.cluster.close()
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={log_dir}\nmetadata.log.dir={metadata_dir}\n")
    result = run("-c", config)
    assert result.stdout.startswith("2 partitions, ")
    assert result.stdout.rstrip().endswith("0 errors, 0 warnings")


def test_directory_without_an_owner(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "the owner of this directory is unknown" in result.stdout
    assert run(tmp_path / "absent").exit_code == 2


def test_directory_of_a_running_broker_is_reported(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        command = [sys.executable, "-m", "minibroker", "storage", "check", str(broker.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout
        assert "warning" in done.stdout
        assert "a broker is using this directory" in done.stdout
        assert broker.stop() == 0
    assert "using" not in run(broker.data_dir).stdout
