"""Scenes of requests about share partitions: acquired records, acknowledgements, the stored state. Any broker can play them.

Each scene has a share group and topics of its own. It writes down what it asked and what it was told, topics by their names. What Apache
Kafka 4.3.1 said is in share_scenes_kafka_4.3.1.json (captures/share_scenes.py).
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from minibroker.errors import BY_CODE
from minibroker.records.any_format import split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k21_delete_records as k21
from minibroker.schemas import k78_share_fetch as k78
from minibroker.schemas import k79_share_acknowledge as k79
from minibroker.schemas import k83_initialize_share_group_state as k83
from minibroker.schemas import k84_read_share_group_state as k84
from minibroker.schemas import k85_write_share_group_state as k85
from minibroker.schemas import k86_delete_share_group_state as k86
from minibroker.schemas import k87_read_share_group_state_summary as k87
from tests.golden.migration_members import Exchange

LOCK_MS: Final = 3_000
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "group.share.delivery.count.limit": "5",
    "group.share.min.delivery.count.limit": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.partition.max.record.locks": "100",
    "group.share.min.partition.max.record.locks": "100",
}
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
WAIT_MS: Final = 300
NOBODYS_TOPIC: Final = UUID(int=77)

Said = tuple[int, int, Sequence[int]]  #: first offset, last offset, types
Asked = Mapping[tuple[str, int], Sequence[Said]]  #: by topic and partition


def code(number: int, message: str | None = None) -> str:
    words = "ok" if number == 0 else f"{number} {BY_CODE[number].__name__}"
    return words if message is None else f"{words} {message!r}"


class Scene:
    """One share group, its topics, and what was said."""

    def __init__(self, name: str, exchange: Exchange) -> None:
        self.group_id = name
        self.exchange = exchange
        self.told: list[str] = []
        self.topic_ids = {"nobodys": NOBODYS_TOPIC}

    def note(self, what: str, answer: str) -> None:
        self.told.append(f"{what}: {answer}")

    def ask(self, sender: str, schema: Any, request: Any, version: int) -> Any:
        return self.exchange.send(sender, schema, request, version).answer()

    def let_pass(self, milliseconds: int) -> None:
        self.exchange.let_pass(milliseconds)

    # What there is

    def topic(self, name: str = "t", partitions: int = 1, *, is_initialized: bool = True) -> None:
        full = f"{self.group_id}-{name}"
        topic = k19.Topic(name=full, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        self.ask("admin", k19, k19.Request(topics=[topic], timeout_ms=30_000, validate_only=False), 7)
        for _ in range(100):
            (found,) = self.ask("admin", k03, k03.Request(topics=[k03.Topic(name=full)]), 12).topics
            if not found.error_code and all(each.leader_id >= 0 for each in found.partitions) and len(found.partitions) == partitions:
                break
            self.let_pass(50)
        self.topic_ids[name] = found.topic_id
        key = f"{self.group_id}:{base64.urlsafe_b64encode(found.topic_id.bytes).rstrip(b'=').decode()}:0"
        while self.ask("admin", k10, k10.Request(coordinator_keys=[key], key_type=2), 6).coordinators[0].error_code:
            self.let_pass(100)
        requested_topic = k87.Topic(topic_id=found.topic_id, partitions=[k87.Partition(partition=partitions - 1, leader_epoch=-1)])
        while self.ask("admin", k87, k87.Request(group_id=self.group_id, topics=[requested_topic]), 1).results[0].partitions[0].error_code:
            self.let_pass(50)  # a coordinator hears of a topic later than others
        self.let_pass(500)
        for index in range(partitions) if is_initialized else ():
            self.initialize(name, index, is_noted=False)

    def produce(self, *sizes: int, topic: str = "t", partition: int = 0) -> None:
        """Batches of so many records."""
        for size in sizes:
            data = bytes(build_batch([Record(index, 1_700_000_000_000, None, b"v%d" % index) for index in range(size)]))
            produced = k00.Topic(name=f"{self.group_id}-{topic}", partition_data=[k00.Partition(index=partition, records=data)])
            request = k00.Request(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[produced])
            assert self.ask("admin", k00, request, 9).responses[0].partition_responses[0].error_code == 0

    def delete_below(self, offset: int) -> None:
        deleted = k21.Topic(name=f"{self.group_id}-t", partitions=[k21.Partition(partition_index=0, offset=offset)])
        self.ask("admin", k21, k21.Request(topics=[deleted], timeout_ms=10_000), 2)

    # What members ask

    def fetch(
        self,
        member: str | None,
        epoch: int,
        said: Asked | Sequence[Said] = (),
        *,
        version: int = 2,
        forgotten: Iterable[tuple[str, int]] = (),
        is_renew: bool = False,
        **fields: int,
    ) -> Callable[[], None]:
        """ShareFetch; what is returned writes the answer down, and is called here unless it has to be waited for."""
        requested = {("t", 0): said} if isinstance(said, Sequence) else said
        defaults = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        request = k78.Request(
            group_id=self.group_id,
            member_id=member,
            share_session_epoch=epoch,
            **(defaults | ({"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0} if is_renew else {}) | fields),
            is_renew_ack=is_renew,
            topics=[
                k78.Topic(
                    topic_id=self.topic_ids[topic],
                    partitions=[k78.Partition(partition_index=index, acknowledgement_batches=batches(k78, each))],
                )
                for (topic, index), each in requested.items()
            ],
            forgotten_topics_data=[k78.ForgottenTopic(topic_id=self.topic_ids[topic], partitions=[index]) for topic, index in forgotten],
        )
        sent = self.exchange.send(member or "null", k78, request, version)
        how = "".join(f" {name}={value}" for name, value in fields.items())
        what = f"{member} fetches {epoch}{shown(requested)}{how}{' renew' if is_renew else ''}"

        def answer() -> None:
            response = sent.answer()
            parts = [
                f"{self.named(topic.topic_id)}-{each.partition_index} {code(each.error_code, each.error_message)}"
                f"{acknowledged(each)} {records_of(each.records)} {acquired(each.acquired_records)}{leader(each)}"
                for topic in response.responses
                for each in topic.partitions
            ]
            result = f"{code(response.error_code, response.error_message)} {response.acquisition_lock_timeout_ms} {sorted(parts)}"
            self.note(what, result + " with endpoints" * bool(response.node_endpoints))

        return answer

    def take(self, member: str | None, epoch: int, said: Asked | Sequence[Said] = (), **options: Any) -> None:
        self.fetch(member, epoch, said, **options)()

    def take_what_is_left(self, member: str, **options: Any) -> None:
        """Answers without records are not written down: Kafka has one when it finds that the log begins further on."""
        before = len(self.told)
        for epoch in range(4):
            self.take(member, epoch, max_wait_ms=50, **options)
        self.told[before:] = [each.partition(": ")[2] for each in self.told[before:] if "x" in each.rpartition(" ")[2]]

    def acknowledge(
        self, member: str | None, epoch: int, said: Asked | Sequence[Said] = (), *, version: int = 2, is_renew: bool = False
    ) -> None:
        requested = {("t", 0): said} if isinstance(said, Sequence) else said
        request = k79.Request(
            group_id=self.group_id,
            member_id=member,
            share_session_epoch=epoch,
            is_renew_ack=is_renew,
            topics=[
                k79.Topic(
                    topic_id=self.topic_ids[topic],
                    partitions=[k79.Partition(partition_index=index, acknowledgement_batches=batches(k79, each))],
                )
                for (topic, index), each in requested.items()
            ],
        )
        response = self.ask(member or "null", k79, request, version)
        parts = [
            f"{self.named(topic.topic_id)}-{each.partition_index} {code(each.error_code, each.error_message)}{leader(each)}"
            for topic in response.responses
            for each in topic.partitions
        ]
        result = f"{code(response.error_code, response.error_message)} {response.acquisition_lock_timeout_ms} {sorted(parts)}"
        result += " with endpoints" * bool(response.node_endpoints)
        self.note(f"{member} acknowledges {epoch}{shown(requested)}{' renew' if is_renew else ''}", result)

    # What brokers ask

    def initialize(
        self,
        topic: str = "t",
        index: int = 0,
        *,
        state_epoch: int = 1,
        start_offset: int = 0,
        is_noted: bool = True,
        group: str | None = None,
    ) -> None:
        partition = k83.Partition(partition=index, state_epoch=state_epoch, start_offset=start_offset)
        request = k83.Request(
            group_id=self.group_id if group is None else group, topics=[k83.Topic(topic_id=self.topic_ids[topic], partitions=[partition])]
        )
        response = self.ask("admin", k83, request, 0)
        if is_noted:
            self.note(f"initialize {topic}-{index} epoch {state_epoch} at {start_offset}", self.results(response, lambda _: ""))

    def read(self, topic: str = "t", index: int = 0, leader_epoch: int = -1) -> None:
        requested_topic = k84.Topic(topic_id=self.topic_ids[topic], partitions=[k84.Partition(partition=index, leader_epoch=leader_epoch)])
        response = self.ask("admin", k84, k84.Request(group_id=self.group_id, topics=[requested_topic]), 0)

        def known(each: Any) -> str:
            found = [f"{b.first_offset}-{b.last_offset} {b.delivery_state}x{b.delivery_count}" for b in each.state_batches]
            return f" epoch {each.state_epoch} at {each.start_offset} {found}"

        self.note(f"read {topic}-{index} leader {leader_epoch}", self.results(response, known))

    def write(self, *states: tuple[int, int, int, int], topic: str = "t", index: int = 0, version: int = 1, **fields: int) -> None:
        values = {"state_epoch": 1, "leader_epoch": 0, "start_offset": -1, "delivery_complete_count": 0} | fields
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        found = [k85.StateBatch(**dict(zip(names, each, strict=True))) for each in states]
        requested_topic = k85.Topic(
            topic_id=self.topic_ids[topic], partitions=[k85.Partition(partition=index, state_batches=found, **values)]
        )
        response = self.ask("admin", k85, k85.Request(group_id=self.group_id, topics=[requested_topic]), version)
        self.note(f"write {topic}-{index} {states} {fields}", self.results(response, lambda _: ""))

    def delete(self, topic: str = "t", index: int = 0) -> None:
        requested_topic = k86.Topic(topic_id=self.topic_ids[topic], partitions=[k86.Partition(partition=index)])
        response = self.ask("admin", k86, k86.Request(group_id=self.group_id, topics=[requested_topic]), 0)
        self.note(f"delete {topic}-{index}", self.results(response, lambda _: ""))

    def summary(self, topic: str = "t", index: int = 0) -> None:
        requested_topic = k87.Topic(topic_id=self.topic_ids[topic], partitions=[k87.Partition(partition=index, leader_epoch=-1)])
        response = self.ask("admin", k87, k87.Request(group_id=self.group_id, topics=[requested_topic]), 1)
        fields = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
        self.note(f"summary {topic}-{index}", self.results(response, lambda each: f" {[getattr(each, name) for name in fields]}"))

    def results(self, response: Any, more: Callable[[Any], str]) -> str:
        return "; ".join(
            f"{self.named(topic.topic_id)}-{each.partition} {code(each.error_code, each.error_message)}{more(each)}"
            for topic in response.results
            for each in topic.partitions
        )

    def named(self, topic_id: UUID) -> str:
        return next(name for name, known in self.topic_ids.items() if known == topic_id)


def batches(schema: Any, said: Sequence[Said]) -> list[Any]:
    return [schema.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types)) for first, last, types in said]


def shown(asked: Asked) -> str:
    parts = [
        f"{topic}-{index}{''.join(f' {first}-{last}:{list(types)}' for first, last, types in result)}"
        for (topic, index), result in asked.items()
    ]
    return f" [{', '.join(parts)}]"


def acknowledged(result: k78.PartitionResult) -> str:
    return f" acknowledged {code(result.acknowledge_error_code, result.acknowledge_error_message)}" if result.acknowledge_error_code else ""


def leader(result: Any) -> str:
    response = result.current_leader
    return f" leader {response.leader_id} {response.leader_epoch}" if response.leader_id or response.leader_epoch else ""


def records_of(data: Any) -> str:
    return ",".join(f"{each.base_offset}-{each.last_offset}" for each in split_batches(data)) if data else "nothing"


def acquired(found: Iterable[k78.AcquiredRecords]) -> str:
    return " ".join(f"{each.first_offset}-{each.last_offset}x{each.delivery_count}" for each in found)


# Scenes


def sessions(scene: Scene) -> None:
    scene.topic(partitions=3)
    scene.take("a", 0, {})
    scene.take("a", 2)
    scene.take("a", 1)
    scene.take("a", 1)
    scene.produce(2)
    scene.produce(2, partition=1)
    scene.take("a", 2, {})
    scene.take("a", 3, {("t", 1): ()})
    scene.take("a", 4, {("t", 2): ()})
    scene.take("a", 5, {})
    scene.take("a", 6, {}, forgotten=[("t", 0), ("t", 2)])
    scene.take("a", 7, {("t", 0): [(0, 1, [ACCEPT])], ("t", 1): [(0, 1, [ACCEPT])]})
    scene.take("a", 0, [(0, 1, [ACCEPT])])
    scene.take("a", 0, {})
    scene.take("b", -1)
    scene.take("b", 1)
    scene.acknowledge("b", 1)
    scene.acknowledge("b", -1)
    scene.acknowledge("a", 0)
    scene.acknowledge("a", 1, {})
    scene.acknowledge("a", 1, {})
    scene.acknowledge("a", -1, {})
    scene.take("a", 2)
    scene.take(None, 0)
    scene.take("", 0)
    scene.take("m" * 37, 0)
    scene.acknowledge(None, 1)
    scene.acknowledge("m" * 37, 1)


def unknown_partitions(scene: Scene) -> None:
    scene.topic()
    scene.topic("u", is_initialized=False)
    scene.produce(2)
    scene.take("a", 0, {("t", 0): ()})
    scene.take("a", 1, {("t", 0): [(0, 0, [ACCEPT])], ("t", 7): ()})
    scene.take("a", 2, {("u", 0): ()})
    one = [(0, 0, [ACCEPT])]
    scene.acknowledge("a", 3, {("t", 0): [(1, 1, [ACCEPT])], ("t", 7): one, ("nobodys", 0): one, ("u", 0): one})
    scene.acknowledge("a", 4, {("t", 0): ()})
    scene.acknowledge("a", 5, {("t", 7): ()})


def limits(scene: Scene) -> None:
    scene.topic()
    scene.produce(3, 3, 3, 3, 3)
    scene.take("a", 0, max_records=4)
    scene.take("b", 0, max_records=1)
    scene.take("c", 0, max_records=4, share_acquire_mode=1)
    scene.take("c", 1, max_records=1, share_acquire_mode=1)
    scene.take("c", 2, max_records=0)
    scene.take("c", 3)
    scene.produce(4, 4, 4)
    scene.acknowledge("a", 1, [(0, 5, [RELEASE])])
    scene.take("a", 2, batch_size=5)
    scene.take("a", 3, max_records=1)
    scene.take("a", 4, [(0, 2, [ACCEPT])], max_bytes=10)


def in_flight(scene: Scene) -> None:
    scene.topic()
    scene.produce(60, 60, 60)
    scene.take("a", 0)
    scene.take("b", 0)
    scene.acknowledge("a", 1, [(5, 5, [RELEASE])])
    scene.take("b", 1)
    scene.acknowledge("a", 2, [(0, 4, [ACCEPT]), (6, 59, [ACCEPT])])
    scene.take("b", 2)
    scene.acknowledge("b", 3, [(5, 5, [ACCEPT])])
    scene.take("b", 4)


def acknowledgements(scene: Scene) -> None:
    scene.topic()
    scene.produce(5, 5, 5)
    scene.take("a", 0, max_records=5)
    scene.take("b", 0, max_records=5)
    epochs = itertools.count(1)
    wrong: tuple[list[Said], ...] = (
        [(5, 9, [ACCEPT])], [(0, 9, [ACCEPT])], [(12, 13, [ACCEPT])], [(3, 11, [ACCEPT])], [(0, 4, [7])], [(0, 4, [ACCEPT, ACCEPT])],
        [(4, 0, [ACCEPT])], [(0, 4, [])], [(3, 4, [ACCEPT]), (0, 1, [ACCEPT])], [(0, 4, [RENEW])], [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
    )  # fmt: skip
    for result in wrong:
        scene.acknowledge("a", next(epochs), result)
    scene.acknowledge("a", next(epochs), [(0, 4, [RELEASE, ACCEPT, RELEASE, REJECT, GAP])])
    scene.acknowledge("a", next(epochs), [(0, 4, [ACCEPT])])
    scene.acknowledge("a", next(epochs), [(1, 1, [ACCEPT])])
    scene.read()
    scene.take("c", 0, max_records=5)
    scene.take("c", 1, [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])])
    scene.acknowledge("b", 1, [(5, 9, [ACCEPT])])
    scene.summary()
    scene.read()
    scene.acknowledge("c", 2, [(0, 2, [ACCEPT])])
    scene.acknowledge("c", 3, [(10, 14, [ACCEPT])])
    scene.summary()


def renewals(scene: Scene) -> None:
    scene.topic()
    scene.produce(3, 3)
    scene.take("a", 0)
    scene.take("a", 1, [(0, 2, [RENEW])], is_renew=True)
    scene.take("a", 2, [(0, 2, [RENEW])], max_records=5)
    scene.take("a", 3, [(0, 1, [RENEW, ACCEPT])], is_renew=True, max_records=5)
    scene.acknowledge("a", 3, [(0, 1, [RENEW, ACCEPT])], is_renew=True)
    scene.acknowledge("a", 4, [(1, 1, [RENEW])], is_renew=True)
    scene.read()


def deliveries(scene: Scene) -> None:
    """Records near their last delivery attempt are delivered one by one."""
    scene.topic()
    scene.produce(16, 4)
    scene.take("a", 0, max_records=1)
    epochs = itertools.count(1)
    for _ in range(3):
        scene.acknowledge("a", next(epochs), [(0, 15, [RELEASE])])
        scene.take("a", next(epochs), max_records=1)
    scene.take("b", 0)
    scene.acknowledge("a", next(epochs), [(0, 7, [RELEASE])])
    scene.take("c", 0)
    scene.take("d", 0)
    scene.acknowledge("c", 1, [(0, 0, [RELEASE])])
    scene.acknowledge("d", 1, [(1, 1, [REJECT])])
    scene.read()
    scene.take("e", 0)
    scene.take("f", 0)


def halves(scene: Scene) -> None:
    """From half of the limit of deliveries on they are parts of the batch as it was at first, however far the start offset has moved."""
    scene.topic()
    scene.produce(100)
    epochs = itertools.count(1)
    scene.take("a", 0)
    for _ in range(2):
        scene.acknowledge("a", next(epochs), [(0, 99, [RELEASE])])
        scene.take("a", next(epochs))
    scene.acknowledge("a", next(epochs), [(0, 99, [RELEASE])])
    scene.take("a", next(epochs))
    scene.acknowledge("a", next(epochs), [(0, 49, [ACCEPT])])
    scene.take("a", next(epochs))
    scene.acknowledge("a", next(epochs), [(50, 99, [RELEASE])])
    scene.take("a", next(epochs))
    scene.acknowledge("a", next(epochs), [(50, 50, [ACCEPT])])
    scene.take("a", next(epochs))


def halves_of_less(scene: Scene) -> None:
    """The log begins further on before the fourth delivery."""
    scene.topic()
    scene.produce(100)
    scene.take("a", 0)
    for epoch in (1, 3):
        scene.acknowledge("a", epoch, [(0, 99, [RELEASE])])
        scene.take("a", epoch + 1)
    scene.acknowledge("a", 5, [(0, 99, [RELEASE])])
    scene.delete_below(30)
    scene.take_what_is_left("b")


def locks(scene: Scene) -> None:
    scene.topic()
    scene.produce(4, 4)
    scene.take("a", 0, max_records=4)
    scene.acknowledge("a", 1, [(1, 1, [RELEASE]), (3, 3, [ACCEPT])])
    scene.let_pass(LOCK_MS + 500)
    scene.acknowledge("a", 2, [(0, 0, [ACCEPT])])
    scene.read()
    scene.take("b", 0)
    scene.summary()


def ends(scene: Scene) -> None:
    """Of sessions: what a member had is others'."""
    scene.topic()
    scene.produce(4, 4)
    scene.take("a", 0, max_records=4)
    scene.take("b", 0)
    scene.take("a", -1, [(0, 1, [ACCEPT])])
    scene.let_pass(200)
    scene.read()
    scene.take("b", 1)
    scene.acknowledge("b", -1, [(2, 2, [ACCEPT])])
    scene.let_pass(200)
    scene.read()
    scene.take("c", 0)


def log_starts(scene: Scene) -> None:
    """Move over what is in flight, and over what is not."""
    scene.topic()
    scene.produce(4, 4, 4, 4)
    scene.take("a", 0, max_records=4)
    scene.take("b", 0, max_records=4)
    scene.acknowledge("a", 1, [(0, 3, [RELEASE])])
    scene.delete_below(2)
    scene.take_what_is_left("c", max_records=1)
    scene.delete_below(9)
    scene.take_what_is_left("d", max_records=1)
    scene.acknowledge("b", 1, [(4, 7, [ACCEPT])])
    scene.summary()


def waits(scene: Scene) -> None:
    scene.topic()
    scene.take("a", 0)
    waiting = scene.fetch("a", 1, max_wait_ms=20_000)
    scene.let_pass(100)
    scene.produce(2)
    waiting()
    waiting = scene.fetch("b", 0, max_wait_ms=20_000)
    scene.let_pass(100)
    scene.acknowledge("admin", 1, [(0, 0, [RELEASE])])
    scene.take("c", 0, max_wait_ms=0)
    scene.let_pass(LOCK_MS)
    waiting()


def states(scene: Scene) -> None:
    scene.topic(is_initialized=False)
    scene.summary()
    scene.read()
    scene.write((0, 1, 2, 1))
    scene.delete()
    scene.initialize(start_offset=-1, state_epoch=3)
    scene.summary()
    scene.initialize(state_epoch=2)
    scene.initialize(state_epoch=3, start_offset=10)
    scene.summary()
    scene.write((10, 14, 2, 1), state_epoch=3)
    scene.write((12, 12, 0, 1), state_epoch=2)
    scene.read(leader_epoch=2)
    scene.read(leader_epoch=1)
    scene.write((15, 19, 0, 1), state_epoch=3, leader_epoch=1)
    scene.write((15, 19, 0, 1), state_epoch=3, leader_epoch=2, delivery_complete_count=5)
    scene.summary()
    scene.write((17, 30, 4, 2), (15, 15, 2, 1), state_epoch=3, leader_epoch=3, start_offset=12, delivery_complete_count=7)
    scene.read(leader_epoch=2)
    scene.write((16, 16, 2, 1), state_epoch=-1, leader_epoch=-1, start_offset=13, version=0)
    scene.write((40, 45, 0, 1), (46, 47, 0, 1), (44, 50, 2, 1), state_epoch=5, leader_epoch=3, start_offset=13, delivery_complete_count=1)
    scene.write((18, 18, 0, 1), state_epoch=3, leader_epoch=3)
    scene.read()
    scene.summary()
    scene.initialize(state_epoch=9, start_offset=0)
    scene.read()
    scene.delete()
    scene.delete()
    scene.summary()
    scene.initialize(index=5)
    scene.initialize(index=-1)
    scene.initialize("nobodys")
    scene.initialize(group="")
    scene.read(index=-1)
    scene.read("nobodys")
    scene.write((0, 0, 0, 1), index=-1)
    scene.write((0, 0, 0, 1), topic="nobodys")
    scene.delete(index=9)
    scene.delete(index=-1)
    scene.delete("nobodys")
    scene.summary(index=9)
    scene.summary(index=-1)
    scene.summary("nobodys")


def fenced(scene: Scene) -> None:
    """Another leader reads the state."""
    scene.topic()
    scene.produce(4)
    scene.take("a", 0)
    scene.read(leader_epoch=7)
    scene.acknowledge("a", 1, [(0, 1, [ACCEPT])])
    scene.take("a", 2)
    scene.acknowledge("a", 3, [(0, 1, [ACCEPT])])


SCENES: Final = (
    sessions, unknown_partitions, limits, in_flight, acknowledgements, renewals, deliveries, halves, halves_of_less, locks, ends,
    log_starts, waits, states, fenced,
)  # fmt: skip


def play(scene: Callable[[Scene], None], exchange: Exchange) -> list[str]:
    """What was said."""
    playing = Scene(scene.__name__, exchange)
    scene(playing)
    return playing.told
