"""Members of groups in Python, told what to do on standard input (tests/clients/group_members.py): python_members.py MAKE BOOTSTRAP.

Each member polls in a thread of its own, and commits there what it has read: when it is told to, and before partitions go.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

TICK_S = 0.05
HEARTBEAT_S = 0.2


class Member(threading.Thread):
    """What all makes have: a loop that polls, what came of it, and tasks between two polls."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.owned: set[tuple[str, int]] = set()
        self._tasks: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        self._leaving = False

    def seen(self) -> list[str]:
        lines, self.lines = self.lines, []
        return [f"owns\t{topic}\t{partition}" for topic, partition in sorted(self.owned)] + lines

    def told(self, task: Callable[[], None]) -> None:
        done: Future[None] = Future()
        self._tasks.put((task, done))
        done.result(60)

    def leave(self) -> None:
        self._leaving = True
        self.join(30)
        if self.is_alive():
            raise TimeoutError("it does not leave")

    def work(self) -> None:
        while not self._tasks.empty():
            task, done = self._tasks.get()
            try:
                task()
                done.set_result(None)
            except Exception as error:  # noqa: BLE001  it is told, not handled
                done.set_exception(error)

    def run(self) -> None:
        try:
            while not self._leaving:
                self.work()
                self.poll()
            self.close()
        except Exception as error:  # noqa: BLE001  it is told, not handled
            traceback.print_exc()
            self.trouble(error)

    def read(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        self.lines.append(f"read\t{topic}\t{partition}\t{offset}\t{value.decode()}")

    def trouble(self, error: object) -> None:
        self.lines.append(f"trouble\t{error!r}".replace("\n", " "))

    def poll(self) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class ConfluentMember(Member):
    def __init__(self, bootstrap: str, group: str, topics: str, settings: dict[str, str]) -> None:
        from confluent_kafka import Consumer

        super().__init__()
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "confluent-kafka",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "topic.metadata.refresh.interval.ms": 300,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 200,
            "group.protocol": settings["protocol"],
        }
        if settings["protocol"] == "classic":
            config |= {"heartbeat.interval.ms": int(HEARTBEAT_S * 1000), "session.timeout.ms": settings["session_ms"]}
            config |= {"partition.assignment.strategy": settings["assignor"]}
        elif settings["assignor"]:
            config |= {"group.remote.assignor": settings["assignor"]}
        if settings["instance"]:
            config |= {"group.instance.id": settings["instance"]}
        self._positions: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(config)
        self._consumer.subscribe([topics], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self.owned |= {(each.topic, each.partition) for each in partitions}

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        try:
            self.commit()
        except Exception as error:  # noqa: BLE001  it is told, not handled
            self.trouble(error)
        self._lost(_, partitions)

    def _lost(self, _: Any, partitions: list[Any]) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        self.owned -= gone
        for place in gone:
            self._positions.pop(place, None)

    def poll(self) -> None:
        from confluent_kafka import KafkaException

        for message in self._consumer.consume(500, TICK_S):
            if (error := message.error()) is not None:
                if not error.retriable():
                    self.trouble(KafkaException(error))
                continue
            self._positions[message.topic(), message.partition()] = message.offset() + 1
            self.read(message.topic(), message.partition(), message.offset(), message.value())

    def commit(self) -> None:
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(*place, offset) for place, offset in self._positions.items()]
        if offsets:
            for each in self._consumer.commit(offsets=offsets, asynchronous=False):
                if each.error is not None:
                    raise RuntimeError(each.error)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember(Member):
    """It does not commit before partitions go: kafka-python's listeners may not block."""

    def __init__(self, bootstrap: str, group: str, topics: str, settings: dict[str, str]) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors import range as range_
        from kafka.coordinator.assignors import roundrobin

        super().__init__()
        assignors = {
            "range": range_.RangePartitionAssignor,
            "roundrobin": roundrobin.RoundRobinPartitionAssignor,
        }
        if settings["assignor"] == "cooperative-sticky":
            from kafka.coordinator.assignors import cooperative_sticky

            assignors["cooperative-sticky"] = cooperative_sticky.CooperativeStickyAssignor
        static = {"group_instance_id": settings["instance"]} if settings["instance"] else {}  # versions of before 3 know none
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id="kafka-python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
            session_timeout_ms=int(settings["session_ms"]),
            metadata_max_age_ms=300,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=200,
            partition_assignment_strategy=[assignors[settings["assignor"]]],
            **static,
        )
        if topics.startswith("^"):
            self._consumer.subscribe(pattern=topics)
        else:
            self._consumer.subscribe([topics])

    def poll(self) -> None:
        coordinator = self._consumer._coordinator
        if coordinator.rejoining and not coordinator.need_rejoin():
            # When a poll's time is over between JoinGroup and SyncGroup, kafka-python 3.0.12 spins for ever (with Apache Kafka, too).
            coordinator.request_rejoin()
        found = self._consumer.poll(timeout_ms=int(TICK_S * 1000))
        self.owned = {(each.topic, each.partition) for each in self._consumer.assignment()}
        for messages in found.values():
            for each in messages:
                self.read(each.topic, each.partition, each.offset, each.value)

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AioKafkaMember(Member):
    """It does not commit before partitions go: aiokafka refuses that when they go because of a new topic."""

    def __init__(self, bootstrap: str, group: str, topics: str, settings: dict[str, str]) -> None:
        super().__init__()
        self._arguments = bootstrap, group, topics, settings

    def run(self) -> None:
        with asyncio.Runner() as runner:
            self._run = runner.run
            try:
                runner.run(self._open(*self._arguments))
            except Exception as error:  # noqa: BLE001  it is told, not handled
                traceback.print_exc()
                self.trouble(error)
                return
            super().run()

    async def _open(self, bootstrap: str, group: str, topics: str, settings: dict[str, str]) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors import range as range_
        from aiokafka.coordinator.assignors import roundrobin

        assignors = {"range": range_.RangePartitionAssignor, "roundrobin": roundrobin.RoundRobinPartitionAssignor}
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id="aiokafka",
            group_instance_id=settings["instance"] or None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
            session_timeout_ms=int(settings["session_ms"]),
            metadata_max_age_ms=300,
            fetch_max_wait_ms=100,
            partition_assignment_strategy=[assignors[settings["assignor"]]],
        )
        await self._consumer.start()
        if topics.startswith("^"):
            self._consumer.subscribe(pattern=topics)
        else:
            self._consumer.subscribe([topics])

    def poll(self) -> None:
        found = self._run(self._consumer.getmany(timeout_ms=int(TICK_S * 1000)))
        self.owned = {(each.topic, each.partition) for each in self._consumer.assignment()}
        for messages in found.values():
            for each in messages:
                self.read(each.topic, each.partition, each.offset, each.value)

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        self._run(self._consumer.stop())


MAKES: dict[str, type[Any]] = {"confluent-kafka": ConfluentMember, "kafka-python": KafkaPythonMember, "aiokafka": AioKafkaMember}


def administer_by_kafka_python(bootstrap: str, command: str, group: str, *words: str) -> list[str]:
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.structs import OffsetAndMetadata

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        if command == "set":
            topic, partition, offset = words
            admin.alter_group_offsets(group, {TopicPartition(topic, int(partition)): OffsetAndMetadata(int(offset), "", -1)})
        elif command == "delete":
            admin.delete_groups([group])
        elif any(each["group_id"] == group for each in admin.list_groups()):
            found = admin.describe_groups([group])[group]
            offsets = admin.list_group_offsets([group])[group]
            state = f"{found['group_state']}\t{len(found['members'])}"
            return [state, *(f"{place.topic}\t{place.partition}\t{each.offset}" for place, each in offsets.items())]
        return []
    finally:
        admin.close()


def administer_by_aiokafka(bootstrap: str, command: str, group: str, *words: str) -> list[str]:
    from aiokafka.admin import AIOKafkaAdminClient

    async def sees() -> list[str]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            if not any(each[0] == group for each in await admin.list_consumer_groups()):
                return []
            (answer,) = await admin.describe_consumer_groups([group])
            (found,) = answer.groups
            offsets = await admin.list_consumer_group_offsets(group)
            return [f"{found[2]}\t{len(found[5])}", *(f"{place[0]}\t{place[1]}\t{each.offset}" for place, each in offsets.items())]
        finally:
            await admin.close()

    assert command == "sees", "aiokafka knows no other"
    return asyncio.run(sees())


ADMINISTRATORS: dict[str, Callable[..., list[str]]] = {"kafka-python": administer_by_kafka_python, "aiokafka": administer_by_aiokafka}


def answer(members: dict[str, Member], make: str, bootstrap: str, words: list[str]) -> None:
    command, name, *rest = words
    if command in {"sees", "set", "delete"}:
        print("".join(line + "\n" for line in ADMINISTRATORS[make](bootstrap, *words)), end="")
    elif command == "join":
        group, topics, *settings = rest
        members[name] = MAKES[make](bootstrap, group, topics, dict(each.split("=", 1) for each in settings))
        members[name].start()
    elif command == "seen":
        print("".join(line + "\n" for line in members[name].seen()), end="")
    elif command == "commit":
        members[name].told(members[name].commit)
    elif command == "leave":
        members[name].leave()
    else:
        raise ValueError(command)


def main(make: str, bootstrap: str) -> None:
    members: dict[str, Member] = {}
    for line in sys.stdin:
        try:
            answer(members, make, bootstrap, line.rstrip("\n").split("\t"))
            print("ok", flush=True)
        except Exception as error:  # noqa: BLE001  it is told, not handled
            traceback.print_exc()
            print(f"failed {error!r}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
