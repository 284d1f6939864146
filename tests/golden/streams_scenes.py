"""Scenes of requests about streams groups (KIP-1071), which any broker can play.

A scene writes down what it asked and what it was told. What Apache Kafka 4.3.1 was told is in streams_scenes_kafka_4.3.1.json
(captures/streams_scenes.py). Members and instances have ids of one letter, so that Kafka's hash tables take them in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from minibroker.errors import BY_CODE
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k11_join_group as k11
from minibroker.schemas import k15_describe_groups as k15
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k37_create_partitions as k37
from minibroker.schemas import k42_delete_groups as k42
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k47_offset_delete as k47
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k88_streams_group_heartbeat as k88
from minibroker.schemas import k89_streams_group_describe as k89
from minibroker.wire.schema import NIL_UUID

GOLDEN: Final = Path(__file__).with_name("streams_scenes_kafka_4.3.1.json")
PARTITION_COUNTS: Final = {"t": 4, "u": 2, "words": 4, "counts": 4, "few": 1, "left": 2, "right": 3}
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "3",
}
REBALANCE_MS: Final = 60_000
SETTLING_MS: Final = 1_500  #: what a broker may take to hear of another topic or setting
GROUP_RESOURCE: Final = 32
STANDBYS: Final = "streams.num.standby.replicas"

Tasks = Mapping[str, Iterable[int]]


class Asked(Protocol):
    """A request that was sent."""

    def answer(self) -> Any:
        """Wait for the answer."""


class Exchange(Protocol):
    """A broker, with the topics of PARTITION_COUNTS and the SETTINGS."""

    def send(self, sender: str, schema: Any, request: Any, version: int) -> Asked:
        """Each sender has a connection of its own."""

    def let_pass(self, milliseconds: int) -> None:
        """Time."""


def topic(name: str, partitions: int = 0, **configs: str) -> k88.TopicInfo:
    pairs = [k88.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return k88.TopicInfo(name=name, partitions=partitions, replication_factor=-1, topic_configs=pairs)


def subtopology(name: str, sources: Sequence[str] = (), **said: Any) -> k88.Subtopology:
    known: dict[str, Any] = {
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return k88.Subtopology(subtopology_id=name, source_topics=list(sources), **(known | said))


def topology(*subtopologies: k88.Subtopology, epoch: int = 0) -> k88.Topology:
    return k88.Topology(epoch=epoch, subtopologies=list(subtopologies))


def together(*sources: int, repartitions: Sequence[int] = ()) -> k88.CopartitionGroup:
    return k88.CopartitionGroup(source_topics=list(sources), source_topic_regex=[], repartition_source_topics=list(repartitions))


READING: Final = topology(subtopology("0", ["t"]))
COUNTING: Final = topology(
    subtopology("0", ["t"], repartition_sink_topics=["words"]),
    subtopology(
        "1",
        repartition_source_topics=[topic("words", retention_ms="-1")],
        state_changelog_topics=[topic("counts", cleanup_policy="compact")],
    ),
)


def code(number: int) -> str:
    return "ok" if number == 0 else f"{number} {BY_CODE[number].__name__}"


def spelled(tasks: Sequence[k88.TaskIds] | Sequence[k89.TaskIds] | None) -> str:
    if tasks is None:
        return "-"
    return "/".join(f"{each.subtopology_id}:{'.'.join(map(str, sorted(each.partitions)))}" for each in sorted(tasks, key=_id)) or "none"


def _id(tasks: k88.TaskIds | k89.TaskIds) -> str:
    return tasks.subtopology_id


class Scene:
    """One group, and what was said."""

    def __init__(self, name: str, exchange: Exchange) -> None:
        self.group_id = name
        self.told: list[str] = []
        self._exchange = exchange

    def note(self, what: str, answer: str) -> None:
        self.told.append(f"{what}: {answer}")

    def let_pass(self, milliseconds: int) -> None:
        self._exchange.let_pass(milliseconds)

    def ask(self, schema: Any, request: Any, version: int) -> Any:
        return self._exchange.send("scene", schema, request, version).answer()

    # Members

    def beat(self, member_id: str, epoch: int, /, active: Tasks | None = None, standby: Tasks | None = None, **said: Any) -> k88.Response:
        known: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": member_id,
            "member_epoch": epoch,
            "endpoint_information_epoch": -1,
        }
        if active is not None:
            known |= {"active_tasks": _task_ids(active), "standby_tasks": _task_ids(standby or {}), "warmup_tasks": []}
        answer: k88.Response = self.ask(k88, k88.Request(**(known | said)), 0)
        owns = "" if active is None else f" {spelled(_task_ids(active))}+{spelled(_task_ids(standby or {}))}"
        self.note(f"{member_id} {epoch}{owns}", answered(answer))
        return answer

    def join(self, member_id: str, process_id: str = "", /, *, of: k88.Topology | None = READING, **said: Any) -> k88.Response:
        known: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "topology": of, "process_id": process_id or member_id}
        return self.beat(member_id, 0, {}, {}, **(known | said))

    # Looking at it

    def look(self) -> None:
        """In every way."""
        listed = self.ask(k16, k16.Request(states_filter=[], types_filter=[]), 5).groups
        self.note("listed", ", ".join(f"{e.protocol_type} {e.group_state} {e.group_type}" for e in listed if e.group_id == self.group_id))
        group = self.ask(k89, k89.Request(group_ids=[self.group_id], include_authorized_operations=True), 0).groups[0]
        head = f"{code(group.error_code)} {group.error_message} {group.group_state} {group.group_epoch} {group.assignment_epoch}"
        self.note("described", f"{head} {group.authorized_operations}")
        if group.topology is not None:
            for each in group.topology.subtopologies or ():
                internal = [
                    f"{e.name}*{e.partitions} {[(c.key, c.value) for c in e.topic_configs]}"
                    for e in (*each.repartition_source_topics, *each.state_changelog_topics)
                ]
                self.note(f"  {each.subtopology_id}", f"{each.source_topics} {each.repartition_sink_topics} {internal}")
        for member in sorted(group.members, key=lambda e: e.member_id):
            has, shall_have = (
                "+".join(map(spelled, (of.active_tasks, of.standby_tasks, of.warmup_tasks)))
                for of in (member.assignment, member.target_assignment)
            )
            tags = [(e.key, e.value) for e in member.client_tags]
            endpoint = member.user_endpoint and (member.user_endpoint.host, member.user_endpoint.port)
            result = f"{member.member_epoch} {member.rack_id} {member.process_id} {member.topology_epoch} {endpoint} {tags}"
            self.note(f"  {member.member_id}", f"{result} {member.is_classic} has {has}, shall have {shall_have}")
        old = self.ask(k15, k15.Request(groups=[self.group_id], include_authorized_operations=False), 6).groups[0]
        self.note("described as classic", f"{code(old.error_code)} {old.error_message} {old.group_state}")

    # Around it

    def commit(self, member_id: str, epoch: int, *partitions: int, name: str = "t", version: int = 9) -> None:
        topics = [
            k08.Topic(
                name=name,
                partitions=[
                    k08.Partition(partition_index=each, committed_offset=7, committed_leader_epoch=-1, committed_metadata="")
                    for each in partitions
                ],
            )
        ]
        request = k08.Request(group_id=self.group_id, generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics)
        answer = self.ask(k08, request, version)
        codes = [code(each.error_code) for found in answer.topics for each in found.partitions]
        self.note(f"OffsetCommit v{version} {member_id} {epoch} {name}{list(partitions)}", " ".join(codes))

    def fetch(self, member_id: str | None, epoch: int) -> None:
        group = k09.Group(
            group_id=self.group_id, member_id=member_id, member_epoch=epoch, topics=[k09.GroupTopic(name="t", partition_indexes=[0])]
        )
        found = self.ask(k09, k09.Request(groups=[group], require_stable=False), 9).groups[0]
        offsets = [each.committed_offset for some in found.topics for each in some.partitions]
        self.note(f"OffsetFetch {member_id} {epoch}", f"{code(found.error_code)} {offsets}")

    def delete_offsets(self, name: str) -> None:
        topics = [k47.Topic(name=name, partitions=[k47.Partition(partition_index=0)])]
        answer = self.ask(k47, k47.Request(group_id=self.group_id, topics=topics), 0)
        codes = [code(each.error_code) for found in answer.topics for each in found.partitions]
        self.note(f"OffsetDelete {name}", f"{code(answer.error_code)} {codes}")

    def delete(self) -> None:
        answer = self.ask(k42, k42.Request(groups_names=[self.group_id]), 2)
        self.note("DeleteGroups", code(answer.results[0].error_code))

    def join_classic(self) -> None:
        request = k11.Request(
            group_id=self.group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[k11.Protocol(name="range", metadata=b"")],
        )
        self.note("JoinGroup", code(self.ask(k11, request, 9).error_code))

    def join_consumer(self) -> None:
        request = k68.Request(
            group_id=self.group_id,
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        answer = self.ask(k68, request, 1)
        self.note("ConsumerGroupHeartbeat", f"{code(answer.error_code)} {answer.error_message}")

    def configure(self, name: str, value: str) -> None:
        config = k44.Config(name=name, config_operation=0, value=value)
        resource = k44.Resource(resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=[config])
        answer = self.ask(k44, k44.Request(resources=[resource], validate_only=False), 1)
        self.note(f"{name}={value}", code(answer.responses[0].error_code))
        self.let_pass(SETTLING_MS)

    def create(self, name: str, count: int) -> None:
        made = k19.Topic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        self.ask(k19, k19.Request(topics=[made], timeout_ms=30_000, validate_only=False), 7)
        self.let_pass(SETTLING_MS)

    def grow(self, name: str, count: int) -> None:
        request = k37.Request(topics=[k37.Topic(name=name, count=count, assignments=None)], timeout_ms=30_000, validate_only=False)
        self.ask(k37, request, 3)
        self.let_pass(SETTLING_MS)

    def drop(self, name: str) -> None:
        self.ask(k20, k20.Request(topics=[k20.Topic(name=name, topic_id=NIL_UUID)], timeout_ms=30_000), 6)
        self.let_pass(SETTLING_MS)


def answered(answer: k88.Response) -> str:
    if answer.error_code:
        return f"{code(answer.error_code)} {answer.error_message} {answer.member_id!r} {answer.member_epoch} {answer.status}"
    tasks = " ".join(map(spelled, (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)))
    statuses = "".join(f" [{each.status_code} {each.status_detail}]" for each in answer.status or ())
    located = answer.partitions_by_user_endpoint
    at = "-"
    if located is not None:
        at = str(
            [
                (e.user_endpoint.host, e.user_endpoint.port, _topics(e.active_partitions), _topics(e.standby_partitions))
                for e in sorted(located, key=lambda e: e.user_endpoint.port)
            ]
        )
    rest = f"{answer.heartbeat_interval_ms} {answer.acceptable_recovery_lag} {answer.task_offset_interval_ms}"
    return f"{answer.member_id} {answer.member_epoch} ({rest}) {tasks}{statuses} at {answer.endpoint_information_epoch} {at}"


def _topics(topics: Sequence[k88.TopicPartition]) -> list[tuple[str, list[int]]]:
    return sorted((each.topic, sorted(each.partitions)) for each in topics)


def _task_ids(tasks: Tasks) -> list[k88.TaskIds]:
    return [k88.TaskIds(subtopology_id=each, partitions=list(partitions)) for each, partitions in tasks.items()]


def refused(scene: Scene) -> None:
    """Requests that no group takes, and groups that are not there."""
    scene.beat("a", 1)
    scene.beat("a", -1)
    scene.look()
    scene.fetch(None, -1)
    wrong: list[dict[str, Any]] = [
        {"rebalance_timeout_ms": -1},
        {"active_tasks": None},
        {"standby_tasks": None},
        {"topology": None},
        {"instance_id": "one"},
        {"instance_id": ""},
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": ""},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"warmup_tasks": _task_ids({"0": [0]})},
        {"topology": topology(subtopology("0", source_topic_regex=["t.*"]))},
        {"topology": topology(subtopology("0", ["__consumer_offsets", "__transaction_state", "a/b"]))},
        {"topology": topology(subtopology("0", ["a/b", ".."]))},
        {"topology": topology(subtopology("0", ["t"], state_changelog_topics=[topic("counts", 3)]))},
        {"topology": topology(subtopology("0", ["t"], repartition_sink_topics=["x"], repartition_source_topics=[topic("y")]))},
        {"topology": topology(subtopology("0", repartition_sink_topics=["x"], repartition_source_topics=[topic("x")]))},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"member_epoch": 1, "standby_tasks": None},
        {"member_epoch": 1},
    ]
    for result in wrong:
        scene.note("with", str(sorted(result)))
        scene.join("a", **result)
    scene.look()


def two_members(scene: Scene) -> None:
    """The second one gets what the first one gave up; epochs; the first one leaves."""
    scene.join("a")
    scene.look()
    scene.join("b", rack_id="r", client_tags=[k88.KeyValue(key="zone", value="z")])
    scene.look()
    scene.beat("b", 3)
    scene.beat("a", 2)
    scene.beat("a", 2)
    scene.beat("a", 2, {"0": [0, 1, 2]})
    scene.look()
    scene.beat("a", 2, {"0": [0, 1]})
    scene.beat("b", 3)
    scene.beat("b", 3, {"0": [2, 3]})
    scene.look()
    scene.beat("a", 4)
    scene.beat("a", 1)
    scene.beat("a", 2)
    scene.beat("a", 2, {"0": [0]})
    scene.beat("a", 2, {"0": [0, 3]})
    scene.beat("z", 3)
    scene.beat("z", -1)
    scene.beat("a", 3, {"7": [0]})
    scene.beat("a", 3, {"0": [4]})
    scene.beat("a", 3, {"0": [-1]})
    scene.join("a")
    scene.join("c")
    scene.join("d")
    scene.beat("a", -1)
    scene.look()
    scene.beat("b", 3)
    scene.beat("c", 4)
    scene.beat("b", -1)
    scene.beat("c", -1)
    scene.look()
    scene.join("a")
    scene.beat("a", -1)
    scene.delete()
    scene.look()


def offsets(scene: Scene) -> None:
    """Who commits and fetches, and what is kept."""
    scene.commit("", -1, 0)
    scene.join("a")
    scene.join("b")
    scene.beat("a", 2)
    scene.beat("a", 2, {"0": [0, 1]})
    scene.beat("b", 3)
    for member_id, epoch in (("a", 3), ("a", 2), ("a", 1), ("a", 4), ("b", 3), ("b", 2), ("z", 3), ("", -1), ("", 3)):
        scene.commit(member_id, epoch, 0, 1, 2, 3)
    scene.commit("a", 2, 0, name="u")
    scene.commit("a", 3, 0, name="u")
    scene.commit("a", 3, 0, version=8)
    for member, epoch in ((None, -1), ("a", 3), ("a", 2), ("z", 3)):
        scene.fetch(member, epoch)
    scene.delete_offsets("t")
    scene.delete_offsets("u")
    scene.delete()
    scene.beat("a", -1)
    scene.beat("b", -1)
    scene.delete_offsets("t")
    scene.commit("", -1, 0)
    scene.delete()
    scene.look()


def counting(scene: Scene) -> None:
    """Two subtopologies, one of which keeps something; standbys on the way."""
    scene.join("a", "p", of=COUNTING)
    scene.join("b", "q", of=COUNTING)
    scene.beat("a", 2)
    scene.beat("a", 2, {"0": [0, 1], "1": [0, 1]})
    scene.beat("b", 3)
    scene.configure(STANDBYS, "1")
    scene.beat("a", 3)
    scene.beat("b", 3)
    scene.beat("b", 3, {"0": [2, 3], "1": [2, 3]})
    scene.beat("a", 3, {"0": [0, 1], "1": [0, 1]})
    scene.look()
    scene.join("c", "q", of=COUNTING)
    for _ in range(3):
        scene.beat("a", 4, {}, {})
        scene.beat("b", 4, {}, {})
        scene.beat("a", 5, {}, {})
        scene.beat("b", 5, {}, {})
        scene.beat("c", 5)
    scene.look()
    scene.configure(STANDBYS, "0")
    scene.beat("a", 5)
    scene.beat("a", 5, {}, {})
    scene.look()


def topologies(scene: Scene) -> None:
    """Another one than the group's."""
    scene.join("a", of=topology(subtopology("0", ["t"]), epoch=1))
    scene.join("b", of=READING)
    scene.beat("b", 3)
    scene.join("c", of=topology(subtopology("0", ["t"]), epoch=2))
    scene.join("c", of=topology(subtopology("0", ["u"]), epoch=1))
    scene.join("b", of=topology(subtopology("0", ["t"]), epoch=1))
    scene.look()


def topics_that_come_and_go(scene: Scene) -> None:
    """A source topic that is missing, grows, is gone."""
    reading = topology(subtopology("0", ["source"]), subtopology("1", ["t"]))
    scene.join("a", of=reading)
    scene.look()
    scene.beat("a", 2)
    scene.create("source", 1)
    scene.beat("a", 2)
    scene.look()
    scene.grow("source", 3)
    scene.beat("a", 3)
    scene.drop("source")
    scene.beat("a", 4)
    scene.look()
    scene.beat("a", 4, {}, {})
    scene.look()


def wrongly_partitioned(scene: Scene) -> None:
    """Topics that have not the partitions that they must have."""
    for name, wrong in (
        ("changelog", subtopology("0", ["t"], state_changelog_topics=[topic("few")])),
        ("repartition", subtopology("0", ["t"], repartition_sink_topics=["few"], repartition_source_topics=[topic("few", 3)])),
        ("sources", subtopology("0", ["left", "right"], copartition_groups=[together(0, 1)])),
        (
            "fixed",
            subtopology(
                "0",
                ["left"],
                repartition_sink_topics=["x"],
                repartition_source_topics=[topic("x", 5)],
                copartition_groups=[together(0, repartitions=[0])],
            ),
        ),
        ("missing", subtopology("0", ["m1", "m2", "m3", "m4", "t"])),
    ):
        scene.group_id = f"{wrongly_partitioned.__name__}-{name}"
        scene.join("a", of=topology(wrong))
        scene.look()


def internal_topics_that_are_made(scene: Scene) -> None:
    """The numbers of partitions that they get, when they exist."""
    made = topology(
        subtopology("0", ["left"], repartition_sink_topics=["made-by-left"]),
        subtopology("1", ["right"], repartition_sink_topics=["made-by-right", "made-of-seven"]),
        subtopology(
            "2",
            repartition_source_topics=[topic("made-by-left"), topic("made-by-right", cleanup_policy="delete")],
            copartition_groups=[together(repartitions=[0, 1])],
            state_changelog_topics=[topic("made-to-keep", cleanup_policy="compact", segment_bytes="1048576")],
        ),
        subtopology("3", repartition_source_topics=[topic("made-of-seven", 7)]),
    )
    scene.join("a", of=made)  # Apache Kafka makes them behind this answer, so that its group is one epoch further in the end
    scene.let_pass(SETTLING_MS)
    scene.beat("a", 2)
    scene.look()
    scene.told = [result for result in scene.told if result.startswith("  ") and not result.startswith("  a:")]
    scene.note("tasks", " ".join(map(spelled, [scene.join("a", of=made).active_tasks])))
    scene.told.pop(-2)


def endpoints(scene: Scene) -> None:
    """Where what is."""
    scene.join("a", "p", of=COUNTING, user_endpoint=k88.Endpoint(host="h", port=1))
    scene.beat("a", 2, endpoint_information_epoch=0)
    scene.beat("a", 2, endpoint_information_epoch=1)
    scene.join("b", "q", of=COUNTING)
    scene.join("c", "r", of=COUNTING, user_endpoint=k88.Endpoint(host="h", port=2))
    scene.beat("a", 2, endpoint_information_epoch=1)
    scene.beat("a", 2, {"0": [0], "1": [0, 1]}, endpoint_information_epoch=2)
    scene.beat("b", 3, endpoint_information_epoch=0)
    scene.beat("c", 4, endpoint_information_epoch=3)
    scene.beat("a", -1)
    scene.beat("c", 4, endpoint_information_epoch=3)
    scene.look()


def owning(scene: Scene) -> None:
    """Heartbeats that own something else than what the group assigned: no answer repeats tasks that did not change."""
    scene.create("owned", 4)
    reading = topology(subtopology("0", ["owned"]))
    scene.join("a", of=reading)
    for owned in ([], [0], [0, 1, 2, 3], [], [3, 2]):
        scene.beat("a", 2, {"0": owned} if owned else {})
    scene.beat("a", 2)
    scene.join("b", of=reading)
    for epoch in (2, 3):
        scene.beat("a", epoch, {"0": [0, 1, 2, 3]})
        scene.beat("a", epoch, {"0": [0]})
        scene.beat("a", epoch, {})
    for owned in ([], [2], [2, 3]):
        scene.beat("b", 3, {"0": owned} if owned else {})
    scene.join("b", of=reading)
    scene.beat("b", 3, {})


def shutdown(scene: Scene) -> None:
    """All shall shut down."""
    scene.join("a")
    scene.join("b")
    scene.beat("b", 3, shutdown_application=True)
    scene.beat("a", 2)
    scene.beat("b", -1)
    scene.beat("a", 2, {"0": [0, 1]})
    scene.beat("a", -1, shutdown_application=True)
    scene.join("a")
    scene.beat("a", -1)


def other_kinds(scene: Scene) -> None:
    """Whose place a group takes, and who takes its place."""
    scene.commit("", -1, 0)
    scene.join("a")
    scene.look()
    scene.join_classic()
    scene.join_consumer()
    scene.beat("a", -1)
    scene.join_consumer()
    scene.look()
    scene.join_classic()
    scene.let_pass(SETTLING_MS)
    scene.look()
    scene.join("a")
    scene.group_id = "other_kinds-consumer"
    scene.join_consumer()
    scene.join("a")
    scene.beat("a", 1)
    scene.beat("a", -1)


SCENES: Final[list[Callable[[Scene], None]]] = [
    refused,
    two_members,
    offsets,
    counting,
    topologies,
    topics_that_come_and_go,
    wrongly_partitioned,
    internal_topics_that_are_made,
    endpoints,
    owning,
    shutdown,
    other_kinds,
]


def play(scene: Callable[[Scene], None], exchange: Exchange) -> list[str]:
    """The requests and answers."""
    playing = Scene(scene.__name__, exchange)
    scene(playing)
    return playing.told
