"""`minibroker storage info` and `format`: what they tell is what is there, and what they prepare is what a broker begins with."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minibroker.background import InlineBackground
from minibroker.cli.kafka_tools import server as kafka_storage
from minibroker.cli.main import main
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.features import default_levels
from minibroker.cluster.metadata.frame import metadata_version_name
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError
from minibroker.security.scram import derive
from minibroker.storage.directory_files import format_uuid
from minibroker.storage.files import RealFiles
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


def test_info_describes_the_directories(tmp_path: Path) -> None:
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


def test_info_reports_inconsistent_directories(tmp_path: Path) -> None:
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


def test_no_properties_for_a_directory_that_kafka_would_refuse(tmp_path: Path) -> None:
    result = run("info", tmp_path, "--server-properties")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (f"Error: {tmp_path} is not formatted: start minibroker on it first, or run 'minibroker storage format'\n")


def test_a_directory_without_its_siblings(tmp_path: Path) -> None:
    cluster = opened(tmp_path / "a", tmp_path / "b")
    cluster.create_topic("orders", partition_count=2)
    cluster.close()
    (problem,) = told(tmp_path / "a", exit_code=1)["problems"]
    assert problem.startswith("1 partitions are in other directories, orders-")
    assert told(tmp_path / "a", tmp_path / "b")["problems"] == []
    result = run("info", tmp_path / "b", "--server-properties")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no metadata log in these directories: give all log.dirs of the node" in result.stderr


def test_a_directory_named_twice_is_one(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert len(told(tmp_path, tmp_path)["directories"]) == 1


def test_broker_starts_with_a_formatted_directory(tmp_path: Path) -> None:
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
        (("-t", "short"), "is not an id of 22 characters"),
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


#: bootstrap.checkpoint as Apache Kafka 4.3.1 wrote it on 2026-11-24: kafka-storage format --standalone with the users of SCRAM_USERS.
KAFKAS_BOOTSTRAP = (
    "00000000000000000000004700000000024a24fc18002000000000000001a20d320e8e000001a20d320e8effffffffffffffffffffffffffff000000012a0000"
    "00080000000316000000000000000000000000000000000000000100000217000000000287f7d728000000000007000001a20d320eea000001a20d320eeaffff"
    "ffffffffffffffffffffffff000000083a000000012e010c00116d657461646174612e76657273696f6e001e00005a000002014e010c0021656c696769626c65"
    "2e6c65616465722e7265706c696361732e76657273696f6e00010000340000040128010c000e67726f75702e76657273696f6e00010000340000060128010c00"
    "0e73686172652e76657273696f6e0001000038000008012c010c001073747265616d732e76657273696f6e000100004000000a0134010c00147472616e736163"
    "74696f6e2e76657273696f6e00020000e40100000c01d601010b0006616c696365011a316c763470646e7734667771376e6f7463786d307963756139219e6a92"
    "02fd89d6f42921cbe0955459bf4c1e3dbcd8c56eb38ae809635ce6903f21fdfe48fbf357d8d9b450ee9c4b6e7ea208a7653977815cd8cd33cf065d04bb050000"
    "10000000e00200000e01d202010b0004626f62021a316c763470646e7734667771376e6f7463786d3079637561394139325a234c6b55502bc3630d337e5e18d5"
    "6fa3b64e6df76607a8f6e533e8932ff74ebc81a95c833bec7067d6b2a766fcbe50324ee877cc81a22695c6e4f94d054148016d6af2f37be24148c855995c503a"
    "e1f999191db2b1380a3b4897f2c0fb9f69c28482e1f909c7c9fe26717e2ca79d3d95936a2d9bbe40a872d16d9fdcd9c700001000000000000000000000090000"
    "003f0000000002ab451870002000000000000001a20d320ef2000001a20d320ef2ffffffffffffffffffffffffffff000000011a000000080000000406000000"
    "00"
)
SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3VhOQ=="
SCRAM_USERS = (
    f'SCRAM-SHA-256=[name=alice,salt="{SALT}",password=secret]',
    f'SCRAM-SHA-512=[name=bob,iterations=4096,salt={SALT},saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]',
)


def test_scram_users_match_the_kafka_tool(tmp_path: Path) -> None:
    ours, kafkas = tmp_path / "ours", tmp_path / "kafkas"
    assert run("format", ours, *(word for user in SCRAM_USERS for word in ("--add-scram", user))).exit_code == 0
    run("format", kafkas)
    (kafkas / "bootstrap.checkpoint").write_bytes(bytes.fromhex(KAFKAS_BOOTSTRAP))
    found = []
    for folder in (ours, kafkas):
        cluster = opened(folder)
        found.append(dict(cluster.image.kept.scram_credentials))
        cluster.close()
    assert list(found[0]) == [("alice", 1), ("bob", 2)]
    assert found[0] == found[1]
    alice = found[0]["alice", 1]
    keys = derive("SCRAM-SHA-256", b"secret", base64.b64decode(SALT), 4096)
    assert (alice.stored_key, alice.server_key) == (keys.stored_key, keys.server_key)
    again = run("format", ours, "-g", "-S", SCRAM_USERS[0])
    assert (again.exit_code, again.stderr) == (0, f"Warning: {ours} was formatted before, so --add-scram changed nothing\n")


@pytest.mark.parametrize(
    ("user", "problem"),  # as Apache Kafka 4.3.1 words it
    [
        ("SCRAM-SHA-1=[name=a,password=hidden]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("hidden", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-256=name=a,password=hidden", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=hidden", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[password=hidden]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a,password=hidden,iterations=100]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=hidden,iterations=20000]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=x]", "Failed to parse iterations count: x"),
        ("SCRAM-SHA-256=[name=a,password=hidden,salt=!!]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=hidden,foo=1]", "Unknown SCRAM configurations: foo"),
        ('SCRAM-SHA-256=[name=a,password="x,hidden"]', "No equals sign found in a SCRAM component; a password cannot contain a comma"),
    ],
)
def test_scram_users_that_are_refused(tmp_path: Path, user: str, problem: str) -> None:
    result = run("format", tmp_path / "a", "--add-scram", user)
    assert (result.exit_code, result.stderr) == (1, f"Error: {problem}\n")
    assert "hidden" not in result.output
    assert not (tmp_path / "a").exists()


def test_scram_users_need_a_metadata_version_that_knows_them(tmp_path: Path) -> None:
    result = run("format", tmp_path / "a", "-f", "metadata.version=8", "-S", SCRAM_USERS[0])
    assert (result.exit_code, result.stderr) == (1, "Error: SCRAM is only supported in metadata.version 3.5-IV2 or later.\n")


def test_a_start_script_gets_its_scram_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "CLUSTER_ID": CLUSTER_ID})
    properties = tmp_path / "server.properties"
    properties.write_text(f"node.id=1\nlog.dirs={tmp_path / 'data'}\n")
    assert kafka_storage.run_storage(["format", "-c", str(properties), "--add-scram", SCRAM_USERS[0]]) == 0
    cluster = opened(tmp_path / "data")
    assert (cluster.cluster_id, list(cluster.image.kept.scram_credentials)) == (CLUSTER_ID, [("alice", 1)])
    cluster.close()


def test_formatted_directory_passes_the_check(tmp_path: Path) -> None:
    assert run("format", tmp_path / "new").exit_code == 0
    assert run("check", tmp_path / "new").stdout.endswith("0 errors, 0 warnings\n")


def test_check_and_info_report_another_node(tmp_path: Path) -> None:
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
