"""Apache Kafka's own tools of administration: quorum, features, leaders, reassignments, quotas, credentials. Each call starts a JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.makes import unique
from tests.support import java

pytestmark = [pytest.mark.java]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture
def tool(bootstrap: str) -> Callable[..., str]:
    def run(name: str, *arguments: str) -> str:
        return java.run_tool(name, "--bootstrap-server", bootstrap, *arguments)

    return run


def test_metadata_quorum_command(tool: Callable[..., str]) -> None:
    status = dict(line.split(":", 1) for line in tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status").splitlines() if ":" in line)
    assert {name: status[name].strip() for name in ("LeaderId", "MaxFollowerLag", "MaxFollowerLagTimeMs", "CurrentObservers")} == {
        "LeaderId": "1",
        "MaxFollowerLag": "0",
        "MaxFollowerLagTimeMs": "0",
        "CurrentObservers": "[]",
    }
    (voter,) = json.loads(status["CurrentVoters"])
    assert voter["id"] == 1
    leader = tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication").splitlines()[1].split()
    assert (leader[0], leader[1], leader[3], leader[-1]) == ("1", voter["directoryId"], "0", "Leader")


def test_feature_command(tool: Callable[..., str]) -> None:
    found = tool(f"{TOOLS}.FeatureCommand", "describe")
    (line,) = [line for line in found.splitlines() if "transaction.version" in line]
    assert re.search(r"SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2", line)
    said = tool(f"{TOOLS}.FeatureCommand", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert said.strip() == "transaction.version can be downgraded to 1."


def test_leaders_and_reassignments(tool: Callable[..., str], new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic(partitions=1)
    where = ("--topic", topic, "--partition", "0")
    for kind in ("preferred", "unclean"):
        said = tool(f"{TOOLS}.LeaderElectionCommand", "--election-type", kind, *where)
        assert said.strip() == f"Valid replica already elected for partitions {topic}-0"
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    command, file = f"{TOOLS}.reassign.ReassignPartitionsCommand", ("--reassignment-json-file", str(plan))
    assert f"Successfully started partition reassignment for {topic}-0" in tool(command, *file, "--execute")
    assert f"Reassignment of partition {topic}-0 is completed." in tool(command, *file, "--verify")
    assert "No partition reassignments found." in tool(command, "--list")


def test_config_command_of_users(tool: Callable[..., str]) -> None:
    user = unique("user")
    entity = ("--entity-type", "users", "--entity-name", user)
    for config in ("SCRAM-SHA-256=[iterations=4096,password=secret]", "producer_byte_rate=1024"):
        tool("kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", config)
    assert tool("kafka.admin.ConfigCommand", "--describe", *entity).splitlines() == [
        f"Quota configs for user-principal '{user}' are producer_byte_rate=1024.0",
        f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=4096",
    ]
    for name in ("SCRAM-SHA-256", "producer_byte_rate"):
        tool("kafka.admin.ConfigCommand", "--alter", *entity, "--delete-config", name)
    assert tool("kafka.admin.ConfigCommand", "--describe", *entity).strip() == ""
