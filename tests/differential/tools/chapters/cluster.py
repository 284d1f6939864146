"""What is said of the node itself: quorum, features, versions, leaders, reassignments, endpoints; and what is not served."""

from __future__ import annotations

import json

from tests.differential.tools.transcript import Side

AT = ("--bootstrap-server", "@")


def quorum(side: Side) -> None:
    tool = "MetadataQuorumCommand"
    side.run(tool, *AT, "describe", "--status", ordered=False)
    side.run(tool, *AT, "describe", "--status", "--human-readable", ordered=False)
    side.run(tool, *AT, "describe", "--replication", free=("LogEndOffset",))
    side.run(
        tool, *AT, "describe", "--replication", "--human-readable", free=("LogEndOffset", "LastFetchTimestamp", "LastCaughtUpTimestamp")
    )
    side.run(tool, *AT, "remove-controller", "--controller-id", 9, "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAFQ")


def features(side: Side) -> None:
    tool = "FeatureCommand"
    side.run(tool, *AT, "describe", ordered=False)
    for words in (
        ("upgrade", "--feature", "transaction.version=2"),
        ("upgrade", "--feature", "transaction.version=9"),
        ("upgrade", "--feature", "no.such.feature=1"),
        ("upgrade", "--release-version", "4.3-IV0"),
        ("upgrade", "--release-version", "9.9"),
        ("downgrade", "--feature", "transaction.version=1"),
        ("downgrade", "--feature", "metadata.version=7"),
        ("downgrade", "--feature", "transaction.version=2"),
        ("downgrade", "--release-version", "4.0-IV3"),
        ("disable", "--feature", "transaction.version"),
        ("disable", "--feature", "metadata.version"),
    ):
        side.run(tool, *AT, *words, "--dry-run", ordered=False)
    side.run(tool, *AT, "version-mapping", "--release-version", "4.0")
    side.run(tool, *AT, "feature-dependencies", "--feature", "transaction.version=2")
    side.run(tool, *AT, "upgrade", "--feature", "transaction.version=2")
    side.run(tool, *AT, "downgrade", "--feature", "transaction.version=1")
    side.until(
        lambda said: "FinalizedVersionLevel: 1" in str([line for line in said.out if "transaction" in line]),
        tool,
        *AT,
        "describe",
        ordered=False,
    )
    side.run(tool, *AT, "upgrade", "--feature", "transaction.version=2")


def versions(side: Side) -> None:
    """The newest versions; we serve older ones too."""
    side.run("BrokerApiVersionsCommand", drop=r"\d+ to (?=\d+ \[usable)")


def cluster(side: Side) -> None:
    tool = "ClusterTool"
    side.run(tool, "cluster-id", *AT)
    side.run(tool, "list-endpoints", *AT)
    side.run(tool, "list-endpoints", *AT, "--include-fenced-brokers")
    side.run(tool, "unregister", *AT, "--id", 9)


def leaders(side: Side) -> None:
    tool = "LeaderElectionCommand"
    side.run("TopicCommand", "--create", "--topic", "led", "--partitions", 2)
    for kind in ("preferred", "unclean"):
        side.run(tool, "--election-type", kind, "--topic", "led", "--partition", 0)
        side.run(tool, "--election-type", kind, "--topic", "led", "--partition", 7)
        side.run(tool, "--election-type", kind, "--topic", "absent", "--partition", 0)
        rows = [{"topic": "led", "partition": index} for index in (0, 1)]
        side.run(tool, "--election-type", kind, "--path-to-json-file", side.file("led.json", json.dumps({"partitions": rows})))
    side.run(tool, "--election-type", "unclean", "--all-topic-partitions")
    side.run(tool, "--election-type", "preferred", "--path-to-json-file", side.file("led-not.json", "not json"))


def reassignments(side: Side) -> None:
    tool = "ReassignPartitionsCommand"
    side.run("TopicCommand", "--create", "--topic", "moved", "--partitions", 2)

    def plan(name: str, *replicas: list[int], topic: str = "moved", **more: object) -> tuple[object, ...]:
        rows = [{"topic": topic, "partition": index, "replicas": each, **more} for index, each in enumerate(replicas)]
        return "--reassignment-json-file", side.file(f"{name}.json", json.dumps({"version": 1, "partitions": rows}))

    side.run(tool, "--list")
    topics = side.file("topics.json", json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    side.run(tool, "--generate", "--topics-to-move-json-file", topics, "--broker-list", side.node_id)
    side.run(tool, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2")
    same, other = plan("same", [1], [1]), plan("other", [2], [1])
    for words in (same, other, plan("absent", [1], topic="absent"), plan("two", [1, 1]), plan("none", []), plan("much", [1], [1], [1])):
        side.run(tool, "--execute", *words, ordered=False)
    side.run(tool, "--execute", *plan("folder", [1], log_dirs=[str(side.data_dir)]), "--timeout", 1000)
    side.run(tool, "--execute", *plan("no-folder", [1], log_dirs=["/no/such/folder"]), "--timeout", 1000)
    side.run(tool, "--execute", *same, "--throttle", 1000, ordered=False)
    side.run(tool, "--verify", *same, "--preserve-throttles", ordered=False)
    side.run(tool, "--verify", *same, ordered=False)
    side.run(tool, "--cancel", *same)
    side.run("TopicCommand", "--describe", "--topic", "moved")


def unserved(side: Side) -> None:
    impatient = side.file("impatient.properties", "default.api.timeout.ms=2000\nrequest.timeout.ms=2000\n")
    tokens = ("--command-config", impatient)
    side.run("DelegationTokenCommand", *tokens, "--describe")
    side.run("DelegationTokenCommand", *tokens, "--create", "--max-life-time-period", -1)
    side.run("DelegationTokenCommand", *tokens, "--renew", "--renew-time-period", -1, "--hmac", "aGFsbG8=")
    side.run("DelegationTokenCommand", *tokens, "--expire", "--expiry-time-period", -1, "--hmac", "aGFsbG8=")
    side.run("AclCommand", "--list")
    side.run("AclCommand", "--add", "--allow-principal", "User:anna", "--operation", "Read", "--topic", "t", "--force")


CHAPTERS = (quorum, features, versions, cluster, leaders, reassignments, unserved)
