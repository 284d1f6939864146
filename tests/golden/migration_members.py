"""Members of groups, of both protocols, at any broker, as sequences of requests: for scenes of online migration.

A scene writes down what it asked and what it was told, with member ids by the names that it gives them.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol
from uuid import UUID

from minibroker.errors import BY_CODE, WireError
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k11_join_group as k11
from minibroker.schemas import k12_heartbeat as k12
from minibroker.schemas import k13_leave_group as k13
from minibroker.schemas import k14_sync_group as k14
from minibroker.schemas import k15_describe_groups as k15
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k69_consumer_group_describe as k69
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from minibroker.wire.codec import decode, encode

SESSION_MS: Final = 20_000
REBALANCE_MS: Final = 20_000
ARRIVAL_MS: Final = 100  #: what is sent by two connections comes in this order

Owned = Mapping[str, Iterable[int]]
ALL_OF_T: Final[Owned] = {"t": range(6)}


class Asked(Protocol):
    """A request that was sent."""

    def answer(self) -> Any:
        """Wait for the answer."""


class Exchange(Protocol):
    """A broker, with the topics of PARTITION_COUNTS and the SETTINGS."""

    topic_ids: Mapping[str, UUID]

    def send(self, sender: str, schema: Any, request: Any, version: int) -> Asked:
        """Each sender has a connection of its own."""

    def let_pass(self, milliseconds: int) -> None:
        """Time."""


def code(number: int) -> str:
    return "ok" if number == 0 else f"{number} {BY_CODE[number].__name__}"


def said(partitions: Owned) -> str:
    return " ".join(f"{topic}{sorted(indexes)}" for topic, indexes in sorted(partitions.items())) or "nothing"


class Scene:
    """One group, and what was said."""

    def __init__(self, name: str, exchange: Exchange) -> None:
        self.group_id = name
        self.exchange = exchange
        self.told: list[str] = []
        self.names: dict[str, str] = {"": "nobody"}  #: of member ids
        self._topics = {topic_id: name for name, topic_id in exchange.topic_ids.items()}

    def note(self, what: str, answer: str) -> None:
        self.told.append(f"{what}: {answer}")

    def know(self, member_id: str, name: str) -> None:
        if member_id:
            self.names[member_id] = name

    def name(self, member_id: str | None) -> str:
        return "null" if member_id is None else self.names.get(member_id, "a stranger")

    def by_name(self, partitions: Iterable[Any]) -> str:
        return said({self._topics[each.topic_id]: each.partitions for each in partitions})

    def ask(self, sender: str, schema: Any, request: Any, version: int) -> Any:
        return self.exchange.send(sender, schema, request, version).answer()

    def let_pass(self, milliseconds: int) -> None:
        self.exchange.let_pass(milliseconds)

    def look(self, *, has_members: bool = True) -> None:
        """At the group, in every way; at its members only where the order of Kafka's hash tables does not matter."""
        listed = self.ask("admin", k16, k16.Request(states_filter=[], types_filter=[]), 5).groups
        self.note("listed", ", ".join(f"{e.protocol_type} {e.group_state} {e.group_type}" for e in listed if e.group_id == self.group_id))
        new = self.ask("admin", k69, k69.Request(group_ids=[self.group_id], include_authorized_operations=False), 1).groups[0]
        self.note("described", f"{code(new.error_code)} {new.error_message} {new.group_state} {new.group_epoch} {new.assignment_epoch}")
        for each in sorted(new.members, key=lambda each: self.name(each.member_id)) if has_members else []:
            topics = "+".join(each.subscribed_topic_names)
            has, shall_have = (
                {t.topic_name: t.partitions for t in of.topic_partitions} for of in (each.assignment, each.target_assignment)
            )
            kind = "classic" if each.member_type == 0 else "new"
            what = f"{kind} {each.instance_id} {each.member_epoch} {topics} has {said(has)}, shall have {said(shall_have)}"
            self.note(f"  {self.name(each.member_id)}", what)
        old = self.ask("admin", k15, k15.Request(groups=[self.group_id], include_authorized_operations=False), 6).groups[0]
        of_members = {self.name(e.member_id): f"{e.group_instance_id} {told(e.member_assignment)}" for e in old.members}
        state = f"{code(old.error_code)} {old.error_message} {old.group_state} {old.protocol_type} {old.protocol_data}"
        self.note("described as classic", f"{state} {sorted(of_members.items())}")

    def remove(self, *members: Classic | New, version: int = 5) -> None:
        """LeaveGroup."""
        requests = [k13.Member(member_id=each.member_id, group_instance_id=each.instance) for each in members]
        answer = self.ask("admin", k13, k13.Request(group_id=self.group_id, members=requests), version)
        found = ", ".join(f"{self.name(each.member_id)} {each.group_instance_id} {code(each.error_code)}" for each in answer.members)
        self.note(f"LeaveGroup {'+'.join(each.name for each in members)}", f"{code(answer.error_code)} [{found}]")


def told(assignment: bytes) -> str:
    """An assignment of the embedded protocol."""
    if len(assignment) < 2:
        return repr(bytes(assignment))
    version = int.from_bytes(assignment[:2], "big")
    try:
        found = decode(ConsumerProtocolAssignment, assignment[2:], 0, flexible=False)
    except WireError:
        return repr(bytes(assignment))
    return f"v{version} {said({each.topic: each.partitions for each in found.assigned_partitions})} {found.user_data!r}"


def assigned(partitions: Owned, user_data: bytes | None = None, version: int = 1) -> bytes:
    """What a leader says."""
    value = ConsumerProtocolAssignment(assigned_partitions=parts(partitions), user_data=user_data)
    return version.to_bytes(2, "big") + bytes(encode(value, 0, flexible=False))


def parts(partitions: Owned) -> list[TopicPartitions]:
    return [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in partitions.items()]


class Classic:
    """A member that speaks the classic protocol."""

    def __init__(
        self,
        scene: Scene,
        name: str,
        *protocols: str,
        topics: Iterable[str] = ("t",),
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        metadata_version: int = 1,
    ) -> None:
        self.scene, self.name, self.instance = scene, name, instance
        self.protocols, self.topics = protocols or ("range",), list(topics)
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.version, self.metadata_version = version, metadata_version
        self.protocol_type = "consumer"
        self.member_id = ""
        self.generation_id = -1
        self._asked: Asked | None = None

    def metadata(self, owned: Owned) -> bytes:
        value = ConsumerProtocolSubscription(topics=self.topics, owned_partitions=parts(owned), generation_id=self.generation_id)
        return self.metadata_version.to_bytes(2, "big") + bytes(encode(value, self.metadata_version, flexible=False))

    def begin(self, owned: Owned | None = None, metadata: bytes | None = None) -> None:
        """Send a JoinGroup; `end` reads its answer."""
        data = self.metadata(owned or {}) if metadata is None else metadata
        request = k11.Request(
            group_id=self.scene.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[k11.Protocol(name=name, metadata=data) for name in self.protocols],
        )
        self._asked = self.scene.exchange.send(self.name, k11, request, self.version)
        self.scene.let_pass(ARRIVAL_MS)

    def end(self, what: str = "joins") -> None:
        assert self._asked is not None
        answer = self._asked.answer()
        if answer.error_code in {0, 79}:
            self.member_id = answer.member_id
            self.scene.know(answer.member_id, self.name)
        if answer.error_code == 0:
            self.generation_id = answer.generation_id
        members = sorted(self.scene.name(each.member_id) for each in answer.members)
        found = f"generation {answer.generation_id} {answer.protocol_type} {answer.protocol_name} leader {self.scene.name(answer.leader)}"
        self.scene.note(
            f"{self.name} {what}",
            f"{code(answer.error_code)} {found} id {self.scene.name(answer.member_id)} members {members} skip {answer.skip_assignment}",
        )

    def join(self, owned: Owned | None = None, metadata: bytes | None = None) -> None:
        self.begin(owned, metadata)
        self.end("joins" if owned is None else f"joins owning {said(owned)}")

    def enter(self) -> None:
        """Join twice: the first answer has its id."""
        self.join()
        self.join()

    def begin_sync(self, assignments: Mapping[str, bytes] | None = None, **changed: Any) -> None:
        known = [k14.Assignment(member_id=member_id, assignment=each) for member_id, each in (assignments or {}).items()]
        request: dict[str, Any] = {
            "group_id": self.scene.group_id,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": self.protocols[0],
            "assignments": known,
        }
        self._asked = self.scene.exchange.send(self.name, k14, k14.Request(**(request | changed)), 5)
        self.scene.let_pass(ARRIVAL_MS)

    def end_sync(self, what: str = "syncs") -> None:
        assert self._asked is not None
        answer = self._asked.answer()
        found = f"{answer.protocol_type} {answer.protocol_name} {told(answer.assignment)}"
        self.scene.note(f"{self.name} {what}", f"{code(answer.error_code)} {found}")

    def sync(self, assignments: Mapping[str, bytes] | None = None, **changed: Any) -> None:
        self.begin_sync(assignments, **changed)
        self.end_sync("syncs" if not changed else f"syncs with {sorted(changed.items())}")

    def lead(self, *others: Classic) -> None:
        """Alone, or giving nothing to others: the first generation of a group."""
        self.sync({self.member_id: assigned(ALL_OF_T)} | {each.member_id: assigned({}) for each in others})

    def beat(self, generation_id: int | None = None) -> None:
        request = k12.Request(
            group_id=self.scene.group_id,
            generation_id=self.generation_id if generation_id is None else generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        answer = self.scene.ask(self.name, k12, request, 4)
        self.scene.note(f"{self.name} beats{'' if generation_id is None else f' of {generation_id}'}", code(answer.error_code))

    def commit(self, generation_id: int | None = None, version: int = 9) -> None:
        commit(self.scene, self.name, self.member_id, self.generation_id if generation_id is None else generation_id, version)

    def fetch(self, generation_id: int) -> None:
        fetch(self.scene, self.name, self.member_id, generation_id)


class New:
    """A member of KIP-848."""

    def __init__(self, scene: Scene, name: str, *, topics: Iterable[str] = ("t",), instance: str | None = None, **said: Any) -> None:
        self.scene, self.name, self.instance = scene, name, instance
        self.member_id = name
        self.member_epoch = 0
        self._said = {"subscribed_topic_names": list(topics), "rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": []} | said
        scene.know(name, name)

    def _ask(self, member_epoch: int, what: str, **said: Any) -> None:
        request = k68.Request(
            group_id=self.scene.group_id, member_id=self.member_id, member_epoch=member_epoch, instance_id=self.instance, **said
        )
        answer = self.scene.ask(self.name, k68, request, 1)
        if answer.error_code == 0:
            self.member_epoch = answer.member_epoch
        given = None if answer.assignment is None else self.scene.by_name(answer.assignment.topic_partitions)
        self.scene.note(f"{self.name} {what}", f"{code(answer.error_code)} {answer.error_message} epoch {answer.member_epoch} {given}")

    def join(self) -> None:
        self._ask(0, "joins", **self._said)

    def beat(self, owned: Owned | None = None) -> None:
        own = None
        if owned is not None:
            own = [k68.TopicPartitions(topic_id=self.scene.exchange.topic_ids[name], partitions=list(of)) for name, of in owned.items()]
        self._ask(self.member_epoch, "beats" if owned is None else f"beats owning {said(owned)}", topic_partitions=own)

    def leave(self, member_epoch: int = -1) -> None:
        self._ask(member_epoch, f"leaves with {member_epoch}")

    def commit(self, member_epoch: int | None = None, version: int = 9) -> None:
        commit(self.scene, self.name, self.member_id, self.member_epoch if member_epoch is None else member_epoch, version)


def commit(scene: Scene, name: str, member_id: str, epoch: int, version: int) -> None:
    partitions = [k08.Partition(partition_index=index, committed_offset=0, committed_metadata="") for index in range(6)]
    topic = k08.Topic(name="t", topic_id=scene.exchange.topic_ids["t"], partitions=partitions)
    request = k08.Request(group_id=scene.group_id, generation_id_or_member_epoch=epoch, member_id=member_id, topics=[topic])
    answer = scene.ask(name, k08, request, version)
    codes = [code(each.error_code) for each in answer.topics[0].partitions]
    scene.note(f"{name} commits at {epoch} v{version}", codes[0] if len(set(codes)) == 1 else str(codes))


def fetch(scene: Scene, name: str, member_id: str, epoch: int) -> None:
    group = k09.Group(group_id=scene.group_id, member_id=member_id, member_epoch=epoch, topics=None)
    answer = scene.ask(name, k09, k09.Request(groups=[group]), 9).groups[0]
    scene.note(f"{name} asks for offsets at {epoch}", code(answer.error_code))


def names_of(scenes: Iterable[Scene]) -> dict[str, str]:
    """By which names records shall tell of members, and of topics."""
    found: dict[str, str] = {}
    for scene in scenes:
        found |= {member_id: name for member_id, name in scene.names.items() if member_id}
        topics = scene.exchange.topic_ids.items()
        found |= {urlsafe_b64encode(topic_id.bytes).decode().rstrip("="): name for name, topic_id in topics}
    return found
