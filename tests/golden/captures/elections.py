"""Capture leaders, in-sync and eligible replicas (KIP-966), and configs, while brokers of an Apache Kafka leave and return.

Starts a cluster of three Kafkas, of which node 1 is also the controller, and writes `elections_kafka_4.3.1.json` in tests/golden;
tests/testing/test_elections_golden.py
asks minibroker the same. Replicas are on nodes 2 and 3, which leave in order, one after
the other. In-sync replicas are ordered by id, because Apache Kafka's order is that of a set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from minibroker.schemas import (
    k01_fetch,
    k03_metadata,
    k18_api_versions,
    k32_describe_configs,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k55_describe_quorum,
    k57_update_features,
    k75_describe_topic_partitions,
)
from tests.golden.captures.several_brokers import Cluster, create
from tests.support.java import KAFKA_VERSION
from tests.support.kafka_cluster import KafkaCluster

GOLDEN = Path(__file__).parents[1] / "elections_kafka_4.3.1.json"
SETTINGS = {
    "offsets.topic.num.partitions": "5",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "false",
}
#: topic -> (replicas, configs)
TOPICS: dict[str, tuple[list[int], dict[str, str]]] = {
    "one": ([2, 3], {"min_insync_replicas": "1"}),
    "two": ([2, 3], {"min_insync_replicas": "2"}),
    "turned": ([3, 2], {"min_insync_replicas": "2"}),
    "all": ([2, 3, 1], {"min_insync_replicas": "3"}),
    "unclean": ([3, 2], {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}),
    "single": ([3], {"min_insync_replicas": "2"}),
}
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_BROKER = 4
_SET, _DELETE = 0, 1


class Elections(Cluster):
    """Asks node 1, which never leaves."""

    def __init__(self, addresses: list[str], stop: Callable[[int], None], start: Callable[[int], None]) -> None:
        super().__init__(addresses, stop)
        self.start = start

    def leave(self, node: int) -> None:
        """A node leaves; all know."""
        self.stop(node)
        self.until(self._brokers, lambda found: node not in found)

    def come_back(self, node: int) -> None:
        """It is back, and leads or follows whatever it may."""
        self.start(node)
        self.until(self._brokers, lambda found: node in found)

        def is_settled() -> bool:
            led = [result for _, result in self.partitions() if result["leader"] >= 0]
            return all({*result["in_sync"], *result["offline"]} == {*result["replicas"]} for result in led)

        self.until(is_settled, bool)

    def _brokers(self) -> set[int]:
        return {each.node_id for each in self.ask(1, k03_metadata.Request(topics=[])).brokers}

    def partitions(self, names: Iterable[str] = TOPICS) -> Iterator[tuple[str, dict[str, Any]]]:
        """Topic by topic, what node 1 says of its partitions; nothing of those that it does not know yet."""
        topics = [k75_describe_topic_partitions.Topic(name=name) for name in names]
        for topic in self.ask(1, k75_describe_topic_partitions.Request(topics=topics, response_partition_limit=100)).topics:
            for each in topic.partitions:
                yield (
                    topic.name,
                    {
                        "error": each.error_code,
                        "leader": each.leader_id,
                        "epoch": each.leader_epoch,
                        "replicas": each.replica_nodes,
                        "in_sync": sorted(each.isr_nodes),
                        "eligible": each.eligible_leader_replicas,
                        "last_known": each.last_known_elr,
                        "offline": each.offline_replicas,
                    },
                )

    def note_partitions(self, what: str) -> None:
        """All topics' partitions, as they are now."""
        for name, result in self.partitions():
            self.note(f"{what}: {name}", result)

    def finalize(self, level: int) -> None:
        """Take eligible leader replicas to a level."""
        kind = _UPGRADE if level else _SAFE_DOWNGRADE
        update = k57_update_features.FeatureUpdate(feature=ELIGIBLE_LEADERS, max_version_level=level, upgrade_type=kind)
        answer = self.ask(1, k57_update_features.Request(feature_updates=[update]))
        self.note(f"{ELIGIBLE_LEADERS} {level}", (answer.error_code, answer.error_message))

        def finalized() -> int:
            result = self.ask(1, k18_api_versions.Request(client_software_name="a", client_software_version="1")).finalized_features
            return next((each.max_version_level for each in result if each.name == ELIGIBLE_LEADERS), 0)

        self.until(finalized, lambda found: found == level)

    def elect(self, election_type: int) -> Any:
        topics = [k43_elect_leaders.Topic(topic=name, partitions=[0]) for name in TOPICS]
        found = self.ask(1, k43_elect_leaders.Request(election_type=election_type, topic_partitions=topics, timeout_ms=10_000))
        results = {
            each.topic: (each.partition_result[0].error_code, each.partition_result[0].error_message)
            for each in found.replica_election_results
        }
        return found.error_code, sorted(results.items())


def converse(cluster: Elections) -> dict[str, Any]:
    """Send all requests, and return the answers."""
    make_topics(cluster)
    ask_quorum(cluster)
    ask_configs(cluster)
    ask_session(cluster)
    cluster.note_partitions("at first")
    cluster.leave(3)
    cluster.note_partitions("3 left")
    ask_for_more(cluster)
    cluster.leave(2)
    cluster.note_partitions("2 left, too")
    cluster.note("elect preferred, without 2 and 3", cluster.elect(0))
    cluster.come_back(3)
    cluster.note_partitions("3 is back")
    cluster.note("elect preferred, without 2", cluster.elect(0))
    cluster.note("elect uncleanly, without 2", cluster.elect(1))
    cluster.note_partitions("3 was elected uncleanly")
    cluster.come_back(2)
    cluster.note_partitions("2 is back, too")
    cluster.note("elect preferred, with all", cluster.elect(0))
    cluster.note_partitions("preferred ones lead")
    cluster.leave(2)
    cluster.note_partitions("2 left")
    cluster.leave(3)
    cluster.note_partitions("3 left, too")
    cluster.come_back(2)
    cluster.note_partitions("2 is back first")
    cluster.come_back(3)
    cluster.note_partitions("3 is back again")
    return cluster.said


def converse_without_eligible(cluster: Elections) -> dict[str, Any]:
    """The same at level 0 of the feature, then at level 1 again, and at level 0 while the replicas that may lead are away."""
    cluster.finalize(0)
    make_topics(cluster)
    cluster.note_partitions("at first")
    for node in (3, 2):
        cluster.leave(node)
        cluster.note_partitions(f"{node} left")
    cluster.note("elect preferred, without 2 and 3", cluster.elect(0))
    cluster.note("elect uncleanly, without 2 and 3", cluster.elect(1))
    cluster.come_back(3)
    cluster.note_partitions("3 is back")
    cluster.note("elect preferred, without 2", cluster.elect(0))
    cluster.note("elect uncleanly, without 2", cluster.elect(1))
    cluster.note_partitions("3 was elected uncleanly")
    cluster.come_back(2)
    cluster.note_partitions("2 is back, too")
    cluster.note("elect preferred, with all", cluster.elect(0))
    cluster.note_partitions("preferred ones lead")
    for node in (2, 3):
        cluster.leave(node)
    for node in (2, 3):
        cluster.come_back(node)
        cluster.note_partitions(f"{node} is back again")
    cluster.finalize(1)
    for node in (3, 2):
        cluster.leave(node)
    cluster.note_partitions("both left at level 1")
    cluster.finalize(0)
    cluster.note_partitions("at level 0 without 2 and 3")
    for node in (3, 2):
        cluster.come_back(node)
        cluster.note_partitions(f"{node} is back at level 0")
    return cluster.said


def make_topics(cluster: Elections) -> None:
    """All of TOPICS, each with a leader."""
    for name, (replicas, configs) in TOPICS.items():
        made = create(cluster, name, replicas=[replicas], **configs)  # type: ignore[arg-type]  # names of configs are none of its own
        assert not made.error_code, made
    cluster.until(
        lambda: [result["leader"] for _, result in cluster.partitions()], lambda found: len(found) == len(TOPICS) and min(found) > 0
    )


def ask_quorum(cluster: Elections) -> None:
    partition = k55_describe_quorum.Partition(partition_index=0)
    request = k55_describe_quorum.Request(topics=[k55_describe_quorum.Topic(topic_name="__cluster_metadata", partitions=[partition])])

    def ids(node: int, version: int) -> Any:
        answer = cluster.ask(node, request, version)
        result = answer.topics[0].partitions[0]
        observers = sorted(each.replica_id for each in result.observers)
        return (
            result.leader_id,
            [each.replica_id for each in result.current_voters],
            observers,
            sorted(each.node_id for each in answer.nodes),
        )

    cluster.until(lambda: ids(1, 2)[2], lambda observers: observers == [2, 3])
    for node in (1, 2):
        for version in (0, 2):
            cluster.note(f"DescribeQuorum {version} at {node}", ids(node, version))


def ask_configs(cluster: Elections) -> None:
    """Configs of one broker, at itself and at another."""

    def alter(at: int, name: str, operation: int = _SET, config: str = "message.max.bytes", value: str | None = "1000001") -> Any:
        change = k44_incremental_alter_configs.Config(name=config, config_operation=operation, value=value)
        resource = k44_incremental_alter_configs.Resource(resource_type=_BROKER, resource_name=name, configs=[change])
        answer = cluster.ask(at, k44_incremental_alter_configs.Request(resources=[resource], validate_only=False)).responses[0]
        return answer.error_code, answer.error_message

    def described(at: int, name: str) -> Any:
        resource = k32_describe_configs.Resource(resource_type=_BROKER, resource_name=name, configuration_keys=["message.max.bytes"])
        answer = cluster.ask(at, k32_describe_configs.Request(resources=[resource], include_synonyms=True)).results[0]
        configs = [(each.value, each.config_source, [(s.name, s.value, s.source) for s in each.synonyms]) for each in answer.configs]
        return answer.error_code, answer.error_message, configs

    cluster.note("alter 2 at 1", alter(1, "2"))
    cluster.note("alter 9 at 1", alter(1, "9"))
    cluster.note("alter 2 at 2", alter(2, "2"))
    cluster.until(lambda: described(2, "2")[2][0][0], lambda value: value == "1000001")
    for at, name in ((2, "2"), (1, "1"), (1, "2"), (3, "3"), (1, "")):
        cluster.note(f"describe {name or 'all'} at {at}", described(at, name))
    cluster.note("alter all at 2", alter(2, "", value="1000002"))
    cluster.until(lambda: described(3, "3")[2][0][0], lambda value: value == "1000002")
    cluster.until(lambda: described(1, "1")[2][0][0], lambda value: value == "1000002")
    for at, name in ((2, "2"), (1, "1"), (1, "")):
        cluster.note(f"describe {name or 'all'} at {at}, when all were altered", described(at, name))
    cluster.note("forget 2 at 2", alter(2, "2", _DELETE, value=None))
    cluster.until(lambda: described(2, "2")[2][0][0], lambda value: value == "1000002")
    cluster.note("describe 2 at 2, when it was forgotten", described(2, "2"))


def ask_for_more(cluster: Elections) -> None:
    """Topics and partitions while node 3 is gone."""
    for what, replicas in (("on 3 alone", [[3]]), ("on 2, and on 3 alone", [[2], [3]]), ("on 3 and 2", [[3, 2]]), ("on 2 and 3", [[2, 3]])):
        made = create(cluster, f"new-{len(cluster.said)}", replicas=replicas)
        cluster.note(f"create {what}", (made.error_code, made.error_message))
        if not made.error_code:
            cluster.until(partial(_is_known, cluster, made.name), bool)
            cluster.note(f"made {what}", [result for _, result in cluster.partitions([made.name])])
    for what, brokers in (("on 3 alone", [3]), ("on 2", [2])):
        assignment = k37_create_partitions.Assignment(broker_ids=brokers)
        topic = k37_create_partitions.Topic(name="single", count=2, assignments=[assignment])
        answer = cluster.ask(1, k37_create_partitions.Request(topics=[topic], timeout_ms=10_000, validate_only=True)).results[0]
        cluster.note(f"one more partition {what}", (answer.error_code, answer.error_message))
    made = create(cluster, "spread", partitions=2, factor=3)
    cluster.note("create everywhere", (made.error_code, made.error_message))
    cluster.until(lambda: [*cluster.partitions(["spread"])], lambda found: len(found) == 2)
    cluster.note(
        "made everywhere",
        [(sorted(result["replicas"]), result["in_sync"], result["offline"]) for _, result in cluster.partitions(["spread"])],
    )


def _is_known(cluster: Elections, topic: str) -> bool:
    return any(cluster.partitions([topic]))


def ask_session(cluster: Elections) -> None:
    """A consumer in a session that sends its rack later: the answer names the replica there, with or without new records."""
    topic_id = cluster.ask(1, k03_metadata.Request(topics=[k03_metadata.Topic(name="one")])).topics[0].topic_id
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = k01_fetch.Topic(topic="one", topic_id=topic_id, partitions=[partition])
    opened = cluster.ask(2, k01_fetch.Request(max_wait_ms=100, min_bytes=1, topics=[topic], session_epoch=0))
    cluster.note("Fetch opens a session", [len(each.partitions) for each in opened.responses])
    for epoch, rack in enumerate(("", "c", "c", "", "b", "c"), 1):
        request = k01_fetch.Request(
            max_wait_ms=300, min_bytes=1, topics=[], session_id=opened.session_id, session_epoch=epoch, rack_id=rack
        )
        answer = cluster.ask(2, request)
        results = [(each.error_code, each.preferred_read_replica, each.high_watermark) for t in answer.responses for each in t.partitions]
        cluster.note(f"Fetch {epoch} of the session, rack {rack or 'unsaid'}", (answer.error_code, results))


def capture() -> None:
    """Ask three Kafkas, and write down what they say."""
    answers = {}
    for what, talk in (("answers", converse), ("without_eligible", converse_without_eligible)):
        with KafkaCluster(SETTINGS, voters=(1,)) as kafka:
            answers[what] = talk(Elections(kafka.addresses, kafka.stop, kafka.start))
    provenance = f"Apache Kafka {KAFKA_VERSION}, three brokers, tests/golden/captures/elections.py"
    GOLDEN.write_text(json.dumps({"provenance": provenance} | answers, indent=1) + "\n")
