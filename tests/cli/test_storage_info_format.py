"""`minibroker storage info` and `format`: what they tell is what is there, and what they prepare is what a broker begins with."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minibroker.background import InlineBackground
from minibroker.cli.main import main
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.features import default_levels
from minibroker.cluster.metadata.frame import metadata_version_name
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError
from minibroker.storage.files import RealFiles
from minibroker.storage.partition_metadata import format_uuid
from tests.support.broker_in_memory import BrokerInMemory, records

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["storage", *(str(argument) for argument in arguments)])


def told(*arguments: object, exit_code: int = 0) -> dict[str, Any]:
    result = run("info", *arguments, "-o", "json")
    assert result.exit_code == exit_code, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def opened(*folders: Path, **settings: str) -> Cluster:
    config = BrokerConfig({"log.dirs": ",".join(map(str, folders))} | settings)
    return Cluster.open(config, RealFiles(), ManualClock(), InlineBackground())


def test_info_tells_what_is_there(tmp_path: Path) -> None:
    broker = BrokerInMemory(topics={"orders": 2}, folder=tmp_path / "data")
    broker.cluster.create_topic("configured", partition_count=1, configs={"retention.ms": "-1"})
    broker.append("orders", 1, records(10))
    broker.cluster.metadata.allocate_producer_id()
    size = broker.cluster.partition("orders", 1).log.segments.size
    broker.cluster.close()

    report = told(broker.folder)
    assert (report["cluster_id"], report["node_id"], report["problems"]) == (broker.cluster.cluster_id, 1, [])
    (directory,) = report["directories"]
    assert directory["directory_id"] == format_uuid(broker.cluster.log_directories[0].directory_id)
    assert (directory["is_formatted"], directory["is_clean"], directory["is_in_use"], directory["partitions"]) == (True, True, False, 3)
    configured, orders = report["topics"]
    assert configured["configs"] == {"retention.ms": "-1"}
    assert (orders["name"], orders["partitions"], orders["bytes"], orders["is_internal"]) == ("orders", 2, size, False)
    assert orders["topic_id"] == format_uuid(broker.cluster.topics["orders"].topic_id)
    metadata = report["metadata"]
    assert metadata["log_end_offset"] == broker.cluster.metadata.last_offset + 1
    assert (metadata["voters"], metadata["kraft_version"], metadata["next_producer_id"]) == ([1], 1, 1000)
    assert report["features"] == default_levels()
    text = run("info", broker.folder).stdout
    for word in (broker.cluster.cluster_id, "30 (4.3-IV0)", "configured", "retention.ms=-1", "newest snapshot   -"):
        assert word in text


def test_info_changes_nothing_and_needs_no_right_to_write(tmp_path: Path) -> None:
    BrokerInMemory(topics={"orders": 1}, folder=tmp_path).cluster.close(clean=False)
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + b"torn")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}
    report = told(tmp_path)
    assert (report["metadata"]["torn_bytes"], report["directories"][0]["is_clean"]) == (4, False)
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()} == before


def test_info_of_what_does_not_agree(tmp_path: Path) -> None:
    for name, node in (("a", "1"), ("b", "2")):
        opened(tmp_path / name, **{"node.id": node}).close()
    report = told(tmp_path / "a", tmp_path / "b", exit_code=1)
    assert [problem.partition(":")[0] for problem in report["problems"]] == [
        "the directories belong to different clusters",
        "the directories belong to different nodes",
        f"{tmp_path / 'b'} also has a metadata log",
    ]
    (tmp_path / "a" / "meta.properties").write_text("version=7\n")
    result = run("info", tmp_path / "a")
    assert result.exit_code == 1
    assert "Error: " in result.stderr
    assert "version '7' is not known" in result.stderr


def test_info_of_an_empty_directory(tmp_path: Path) -> None:
    report = told(tmp_path)
    assert (report["cluster_id"], report["metadata"], report["topics"], report["features"]) == (None, None, [], {})
    assert os.listdir(tmp_path) == []  # noqa: PTH208  nothing was made


def test_the_properties_for_kafka(tmp_path: Path) -> None:
    BrokerInMemory(folder=tmp_path, config={"node.id": "7"}).cluster.close()
    properties = dict(line.split("=", 1) for line in run("info", tmp_path, "--server-properties").stdout.splitlines() if line[0] != "#")
    assert (properties["node.id"], properties["log.dirs"]) == ("7", str(tmp_path))
    assert properties["controller.quorum.bootstrap.servers"] == "localhost:9093"
    assert properties["process.roles"] == "broker,controller"


def test_no_properties_for_what_kafka_would_not_open(tmp_path: Path) -> None:
    result = run("info", tmp_path, "--server-properties")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {tmp_path} is not formatted: start minibroker on it first, or prepare it by minibroker storage format\n"
    )


def test_a_directory_without_its_siblings(tmp_path: Path) -> None:
    cluster = opened(tmp_path / "a", tmp_path / "b")
    cluster.create_topic("orders", partition_count=2)
    cluster.close()
    (problem,) = told(tmp_path / "a", exit_code=1)["problems"]
    assert problem.startswith("1 partitions lie in other directories, orders-")
    assert told(tmp_path / "a", tmp_path / "b")["problems"] == []
    result = run("info", tmp_path / "b", "--server-properties")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no metadata log in these directories: name all log.dirs of the node" in result.stderr


def test_a_directory_named_twice_is_one(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert len(told(tmp_path, tmp_path)["directories"]) == 1


def test_what_is_formatted_is_begun_with(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    result = run("format", a, b, "-t", CLUSTER_ID, "--set", "node.id=3", "-f", "transaction.version=2", "-f", "metadata.version=25")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("formatted for node 3 of cluster " + CLUSTER_ID) == 2
    report = told(a, b)
    assert (report["cluster_id"], report["node_id"]) == (CLUSTER_ID, 3)
    assert report["features"] == {"metadata.version": 25, "transaction.version": 2, "group.version": 1}
    assert report["metadata"]["voters"] == [3]

    cluster = opened(a, b, **{"node.id": "3"})
    assert (cluster.cluster_id, cluster.image.features) == (CLUSTER_ID, report["features"])
    cluster.create_topic("orders", partition_count=4)
    cluster.close()
    report = told(a, b)
    assert [directory["partitions"] for directory in report["directories"]] == [2, 2]
    assert (report["metadata"]["voters"], report["features"]["metadata.version"]) == ([3], 25)
    with pytest.raises(ConfigurationError, match="belongs to node 3, but this broker is configured as node 1"):
        opened(a, b)


def test_formatting_again(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    run("format", a, "-t", CLUSTER_ID)
    before = (a / "meta.properties").read_text()
    again = run("format", a, b)
    assert again.exit_code == 1
    assert "is formatted already" in again.stderr
    assert not (b / "meta.properties").exists()
    assert run("format", a, b, "--ignore-formatted").stdout == f"{b}: formatted for node 1 of cluster {CLUSTER_ID}\n"
    assert (a / "meta.properties").read_text() == before
    assert run("format", a, b, "-g").stdout == "Everything is formatted already.\n"
    for wrong in (("-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-g"), ("--set", "node.id=2", "-g")):
        assert "belongs to" in run("format", a, *wrong).stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("-t", "short"), "is no id of 22 characters"),
        (("-f", "metadata.version=31"), "7 to 30 are known"),
        (("-f", "metadata.version=0"), "7 to 30 are known"),
        (("-f", "group.version=2"), "0 to 1 are known"),
        (("-f", "groups=1"), "there is no feature groups"),
        (("-f", "metadata.version=22", "-f", "eligible.leader.replicas.version=1"), "because it depends on metadata.version level 23"),
    ],
)
def test_formatting_refuses(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    result = run("format", tmp_path / "a", *arguments)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert not (tmp_path / "a").exists()


def test_what_was_only_formatted_passes_the_check(tmp_path: Path) -> None:
    assert run("format", tmp_path / "new").exit_code == 0
    assert run("check", tmp_path / "new").stdout.endswith("0 errors, 0 warnings\n")


def test_check_and_info_tell_of_another_node(tmp_path: Path) -> None:
    opened(tmp_path).close()
    BrokerInMemory(topics={"orders": 1}, folder=tmp_path).cluster.close()
    meta = tmp_path / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    assert f"{tmp_path}/__cluster_metadata-0: is of a quorum of node 1, meta.properties says node 7" in run("check", tmp_path).output
    assert "the metadata log belongs to a quorum with node 1" in run("info", tmp_path).stderr


def test_a_directory_in_use_is_not_formatted(tmp_path: Path) -> None:
    cluster = opened(tmp_path)
    assert "locked" in run("format", tmp_path).stderr
    cluster.close()


def test_a_metadata_log_without_an_owner_is_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "meta.properties").unlink()
    assert "but a metadata log: it is not formatted" in run("format", tmp_path).stderr
    assert not (tmp_path / "meta.properties").exists()


def test_names_of_metadata_versions() -> None:
    assert [metadata_version_name(level) for level in (6, 7, 17, 21, 25, 30, 31)] == [
        "unknown", "3.3-IV3", "3.7-IV2", "3.9-IV0", "4.0-IV3", "4.3-IV0", "unknown"
    ]  # fmt: skip


def test_formatted_files_are_rw_r__r__(tmp_path: Path) -> None:
    run("format", tmp_path)
    for path in (tmp_path / "bootstrap.checkpoint", tmp_path / "meta.properties"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
