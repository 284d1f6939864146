"""StreamsGroupCommand. The group's one member is made of heartbeats, because Kafka Streams itself would take seconds."""

from __future__ import annotations

from typing import Any

from minibroker.client.transport import Deadline
from minibroker.schemas import k88_streams_group_heartbeat as k88
from tests.differential.tools.transcript import Side
from tests.differential.twins import Peer

TOOL = "StreamsGroupCommand"
_WHO: dict[str, Any] = {"group_id": "streamers", "member_id": "member-1", "endpoint_information_epoch": 0}


def _heartbeat(peer: Peer, member_epoch: int, *, active_tasks: list[k88.TaskIds] | None = None) -> k88.Response:
    others = None if active_tasks is None else list[k88.TaskIds]()
    tasks: dict[str, Any] = {"active_tasks": active_tasks, "standby_tasks": others, "warmup_tasks": others}
    return _ask(peer, k88.Request(**_WHO, member_epoch=member_epoch, **tasks))


def _join(peer: Peer) -> k88.Response:
    reading = k88.Subtopology(
        subtopology_id="0",
        source_topics=["streamed"],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    topology = k88.Topology(epoch=0, subtopologies=[reading])
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    more: dict[str, Any] = {"process_id": "process-1", "client_tags": [], "rebalance_timeout_ms": 60_000}
    return _ask(peer, k88.Request(**_WHO, member_epoch=0, topology=topology, **tasks, **more))


def _ask(peer: Peer, request: k88.Request) -> k88.Response:
    """The answer when the coordinator is there."""
    deadline = Deadline(60_000)
    while True:
        answer: k88.Response = peer.ask(k88, 0, request)
        if answer.error_code == 0 or deadline.over:
            assert answer.error_code == 0, answer
            return answer


def _look(side: Side, group: str) -> None:
    for words in ((), ("--verbose",), ("--members",), ("--members", "--verbose"), ("--state",), ("--state", "--verbose")):
        side.run(TOOL, "--describe", "--group", group, *words, ordered=False)


def streams(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "streamed", "--partitions", 2)
    records = "".join(f"k{number}\tv{number}\n" for number in range(12))
    side.run("ConsoleProducer", "--topic", "streamed", "--reader-property", "parse.key=true", stdin=records)
    peer = Peer(side.bootstrap)
    side.run("ConsoleConsumer", "--topic", "streamed", "--group", "other", "--from-beginning", "--max-messages", 1, "--timeout-ms", 20000)
    joined = _join(peer)
    active, deadline = joined.active_tasks, Deadline(60_000)
    while not active and not deadline.over:
        joined = _heartbeat(peer, joined.member_epoch)
        active = joined.active_tasks
    _heartbeat(peer, joined.member_epoch, active_tasks=active)
    side.until(lambda said: "Stable" in str(said.out), TOOL, "--describe", "--group", "streamers", "--state")
    _look(side, "streamers")
    for words in ((), ("--state",), ("--state", "stable"), ("--state", "empty"), ("--state", "odd")):
        side.run(TOOL, "--list", *words, ordered=False)
    side.run("GroupsCommand", "--list", "--streams", ordered=False)
    side.run(TOOL, "--delete", "--group", "streamers", ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", "streamers", "--input-topic", "streamed", "--to-earliest", "--execute", ordered=False)
    _heartbeat(peer, -1)
    peer.close()
    side.until(lambda said: "Empty" in str(said.out), TOOL, "--describe", "--group", "streamers", "--state")
    _look(side, "streamers")
    for where in (("--to-earliest",), ("--to-latest",), ("--to-offset", 2), ("--shift-by", 1)):
        side.run(TOOL, "--reset-offsets", "--group", "streamers", "--input-topic", "streamed", *where, "--execute", ordered=False)
    side.run(TOOL, "--describe", "--group", "streamers", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "streamers", "--input-topic", "streamed", ordered=False)
    side.run(TOOL, "--delete", "--group", "streamers", ordered=False)
    side.run(TOOL, "--delete", "--group", "absent", ordered=False)
    side.run(TOOL, "--describe", "--group", "streamers")
    _look(side, "absent")


CHAPTERS = (streams,)
