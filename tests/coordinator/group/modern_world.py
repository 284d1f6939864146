"""A group whose coordinator assigns, and what it stands in: stored records, time, topics. Its members are each kind's own world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from minibroker.clock import ManualClock
from minibroker.coordinator.group.modern import ModernImage
from minibroker.coordinator.group.topics import REFRESH_INTERVAL_MS, KnownTopic, MatchingTopics, TopicExpressions
from minibroker.errors import KafkaError, NotCoordinator
from minibroker.records.any_format import decode_records, split_batches
from minibroker.storage.record_frame import CONSUMER_OFFSETS, CoordinatorRecord

SESSION_MS = 45_000

Raw = tuple[bytes, bytes | None]

Group = TypeVar("Group", bound=Any)
Image = TypeVar("Image", bound=ModernImage[Any, Any])


class KnownTopics:
    """Topics of a cluster: `t` is UUID 1, ..."""

    def __init__(self, **partition_counts: int) -> None:
        self.version = 0
        self.refresh_interval_ms = REFRESH_INTERVAL_MS
        self._known: dict[str, KnownTopic] = {}
        self.clock = ManualClock()
        self._expressions = TopicExpressions(self.clock, lambda: self._known, lambda: self.version)
        self._last = 0
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, partition_count: int, topic_id: UUID | None = None) -> None:
        self._last += 1
        self._known[name] = KnownTopic(topic_id or UUID(int=self._last), partition_count)
        self.version += 1

    def grow(self, name: str, partition_count: int) -> None:
        self._known[name] = self._known[name]._replace(partition_count=partition_count)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._known[name]
        self.version += 1

    def matching(self, pattern: str) -> MatchingTopics | None:
        return self._expressions.matching(pattern)

    def find(self, name: str) -> KnownTopic | None:
        return self._known.get(name)

    def name_of(self, topic_id: UUID) -> str:
        return next((name for name, topic in self._known.items() if topic.topic_id == topic_id), "deleted")


class ModernWorld(Generic[Group, Image]):
    """One group; topic `t` has four partitions."""

    def __init__(self, image: Image, topics: KnownTopics | None) -> None:
        self.clock = ManualClock()
        self.topics = topics or KnownTopics(t=4)
        self.stored: list[CoordinatorRecord] = []
        self.batches: list[int] = []  #: sizes
        self.fails = False
        self.image = image
        self.group: Group = self.make()

    def make(self) -> Group:
        """The group of `image`, which stores by `persist`."""
        raise NotImplementedError

    def ask(self, member_id: str, member_epoch: int, **said: Any) -> Any:
        """A heartbeat, and its answer."""
        raise NotImplementedError

    def persist(self, records: Sequence[CoordinatorRecord]) -> None:
        if self.fails:
            raise NotCoordinator
        assert records
        self.batches.append(len(records))
        for record in records:
            found = CONSUMER_OFFSETS.decode(*raw(record))
            assert found is not None
            self.stored.append(found)
            self.image.replay(found)

    def replayed(self) -> Image:
        """What the log says."""
        image = type(self.image)()
        for record in self.stored:
            image.replay(record)
        return image

    def restart(self) -> None:
        """Another group object, made of the log."""
        self.group.unload()
        self.image = self.replayed()
        self.group = self.make()
        self.group.resume()

    @property
    def state(self) -> str:
        name: str = self.group.state.value
        return name

    def refused(self, member_id: str, epoch: int, **said: Any) -> tuple[int, str]:
        """Code and message."""
        try:
            answer = self.ask(member_id, epoch, **said)
        except KafkaError as error:
            return error.code, str(error)
        raise AssertionError(answer)

    def let_pass(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)


def facts(image: ModernImage[Any, Any]) -> dict[str, Any]:
    """All that an image says, by name."""
    return {name: getattr(image, name) for each in type(image).__mro__ for name in getattr(each, "__slots__", ())}


def raw(record: CoordinatorRecord) -> Raw:
    """Key and value."""
    key = CONSUMER_OFFSETS.encode_key(record.key)
    return key, None if record.value is None else CONSUMER_OFFSETS.encode_value(record.key, record.value, record.version)


def records_of(segments: Iterable[str], kinds: tuple[type[Any], ...]) -> dict[str, list[tuple[CoordinatorRecord, Raw]]]:
    """Records with keys of these types by group, in the order of the log; `segments` are hexadecimal."""
    found: dict[str, list[tuple[CoordinatorRecord, Raw]]] = {}
    for segment in segments:
        for batch in split_batches(memoryview(bytes.fromhex(segment))):
            for each in [] if batch.is_control else decode_records(batch):
                record = CONSUMER_OFFSETS.decode(each.key, each.value)
                if record is not None and isinstance(record.key, kinds):
                    bytes_of = bytes(each.key or b""), None if each.value is None else bytes(each.value)
                    found.setdefault(record.key.group_id, []).append((record, bytes_of))
    return found
