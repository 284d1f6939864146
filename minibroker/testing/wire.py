"""Topics, records and groups over the wire, as clients see them: the same on minibroker and on Apache Kafka.

Each call opens its own connections, so that any thread may call.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import connect
from minibroker.client.consumer import Consumer
from minibroker.client.groups import DescribedGroup, delete_groups, describe_groups, list_groups
from minibroker.client.offsets import EARLIEST, ISOLATION_LEVELS, LATEST, list_offsets
from minibroker.client.producer import Producer
from minibroker.client.routing import TopicPartition
from minibroker.client.topics import create_topics, delete_topics
from minibroker.errors import ConfigurationError, GroupIdNotFound, KafkaError, UnknownTopicOrPartition
from minibroker.records.record import Headers, Record
from minibroker.schemas import k03_metadata
from minibroker.testing.options import BrokerError, Setting, topic_config

if TYPE_CHECKING:
    from minibroker.testing.access import Access

CLIENT_ID: Final = "minibroker-testing"  #: request logs leave out requests of this client
TIMEOUT_S: Final = 30.0
_STABLE: Final = "Stable"
_POLL_INTERVAL_S: Final = 0.01
_MAX_WAIT_MS: Final = 100  #: of a Fetch at the end of a partition
_POLL_MS: Final = 0

Value = bytes | str | None  #: a str is sent as UTF-8
Assignment = dict[str, list[TopicPartition]]


class FoundRecord(NamedTuple):
    """A record of a topic. `value` None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int  #: epoch milliseconds
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def text(self) -> str:
        """The value as UTF-8."""
        return (self.value or b"").decode()

    def json(self) -> Any:
        """Return the value parsed as JSON."""
        return json.loads(self.value or b"null")


class Wire(ABC):
    """A cluster whose topics, records and groups are read and written over the wire."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """HOST:PORT for any client's bootstrap.servers."""

    _access: Access | None = None  #: of a broker with users or TLS

    def client_config(self, /, client: str, *, user: str | None = None, mechanism: str = "PLAIN") -> dict[str, Any]:
        """Return the configuration with which a client connects, and logs in as `user`.

        Args:
            client: "confluent", "kafka-python", "aiokafka", "java" or "spark".
            user: one of the broker's users, if it has any; with `mtls` and without users, the name in a certificate that is made for it.
            mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

        Returns:
            The configuration in the names and types of that client.

        Raises:
            BrokerError: one of them is unknown, or the user is missing.
        """
        from minibroker.testing.access import client_config  # noqa: PLC0415  most tests have no users

        try:
            return client_config(self._access, self.bootstrap_servers, client, user, mechanism)
        except ConfigurationError as error:
            raise BrokerError(str(error)) from None

    def _client(self) -> Client:
        if self._access is None:
            return Client(self.bootstrap_servers, connect=partial(connect, client_id=CLIENT_ID))
        from minibroker.client.security.connecting import connector  # noqa: PLC0415  most tests have no users

        return Client(self.bootstrap_servers, connect=connector(self._access.kit_properties, client_id=CLIENT_ID))

    # Topics

    def create_topic(self, /, name: str, *, partitions: int = 1, **config: Setting) -> str:
        """Create a topic. It is ready when the method returns.

        Args:
            name: the name of the topic.
            partitions: the number of its partitions.
            config: its configs, with `_` for `.`: `cleanup_policy="compact"`, `retention_ms=1000`.

        Returns:
            The name.

        Raises:
            KafkaError: the topic exists, or the cluster rejects its name or its configs.
        """
        with self._client() as client:
            made = create_topics(client, [name], partition_count=partitions, configs=topic_config(config))[name]
            if isinstance(made, KafkaError):
                raise made
            _topic(client, name, time.monotonic() + TIMEOUT_S)  # brokers of a real Kafka learn of it a moment later
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopicOrPartition if it does not exist."""
        with self._client() as client:
            error = delete_topics(client, [name])[name]
        if error is not None:
            raise error

    def topics(self) -> list[str]:
        """Return the names of all topics except internal ones, sorted."""
        with self._client() as client:
            return sorted(topic.name or "" for topic in client.metadata(None).topics if not topic.is_internal)

    # Records

    def produce(
        self,
        topic: str,
        *values: Value,
        key: Value = None,
        partition: int | None = None,
        headers: Mapping[str, Value] | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Write a record for each value, and return when all are acknowledged (acks=all).

        A topic that does not exist is created if the cluster has auto.create.topics.enable.

        Args:
            topic: the name of the topic.
            values: bytes, text, or None for a tombstone.
            key: the key of all records.
            partition: their partition. Default: chosen by the key, as the Java client does.
            headers: headers of all records.
            timestamp_ms: their timestamp in epoch milliseconds. Default: the current time.

        Raises:
            UnknownTopicOrPartition: there is no such topic or partition.
        """
        encoded = tuple((name, _bytes(value)) for name, value in (headers or {}).items())
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        with self._client() as client:
            producer = Producer(client, topic, idempotent=False)
            for value in values:
                producer.add(Record(0, now_ms, _bytes(key), _bytes(value), encoded), partition)
            producer.flush()

    def records(
        self,
        topic: str,
        *,
        count: int | None = None,
        partition: int | None = None,
        isolation: str = "read_committed",
        timeout_s: float = TIMEOUT_S,
        timeout: float | None = None,
    ) -> list[FoundRecord]:
        """Return all records of a topic or of one partition.

        Args:
            topic: the name of the topic.
            count: wait for that many records, and for the topic itself. Default: do not wait.
            partition: read only this partition.
            isolation: "read_committed" leaves out records of open and aborted transactions; "read_uncommitted" returns them.
            timeout_s: how many seconds to wait for `count` records.
            timeout: another name of `timeout_s`.

        Returns:
            The records, sorted by partition and offset.

        Raises:
            BrokerError: fewer than `count` records came within `timeout_s`, or `isolation` is neither of the two.
            UnknownTopicOrPartition: there is no such topic or partition.
        """
        timeout_s = timeout_s if timeout is None else timeout
        end_s = time.monotonic() + timeout_s
        level = _level(isolation)
        with self._client() as client:
            found_topic = client.topic(topic) if count is None else _topic(client, topic, end_s)
            partitions = [each.partition_index for each in found_topic.partitions]
            if partition is not None and partition not in partitions:
                raise UnknownTopicOrPartition(f"topic {topic} has no partition {partition} (it has {len(partitions)})")
            chosen = partitions if partition is None else [partition]
            found = _read(client, topic, chosen, level, count=count or 0, end_s=end_s)
        if len(found) < (count or 0):
            raise BrokerError(f"records({topic!r}, count={count}): {len(found)} came within {timeout_s:g} s")
        return sorted(found, key=lambda each: (each.partition, each.offset))

    # Groups

    def groups(self) -> list[str]:
        """Return the names of all groups, of any kind, sorted."""
        with self._client() as client:
            return [each.group for each in list_groups(client)]

    def wait_assigned(
        self,
        group: str,
        *,
        members: int = 1,
        timeout_s: float = TIMEOUT_S,
        timeout: float | None = None,
        poll: Callable[[], object] | None = None,
    ) -> Assignment:
        """Wait until a group is stable and has enough members.

        Args:
            group: the name of the group.
            members: the least number of members.
            timeout_s: how many seconds to wait.
            timeout: another name of `timeout_s`.
            poll: called while waiting, for a consumer that joins only while this thread polls it: `poll=lambda: consumer.poll(0)`.

        Returns:
            The assigned partitions of each member, by member id.

        Raises:
            BrokerError: the group was not stable in time. The message describes it.
        """
        timeout_s = timeout_s if timeout is None else timeout
        end_s = time.monotonic() + timeout_s
        with self._client() as client:
            while True:
                if poll is not None:
                    poll()
                found = describe_groups(client, [group])[group]
                if isinstance(found, DescribedGroup) and _is_assigned(found, members):
                    return {member.member_id: [*member.assignment] for member in found.members}
                if isinstance(found, KafkaError) and not found.retriable and not isinstance(found, GroupIdNotFound):
                    raise found
                if time.monotonic() > end_s:
                    raise BrokerError(_not_assigned(group, members, found, timeout_s))
                time.sleep(_POLL_INTERVAL_S)

    # For clusters that cannot be reset at once

    def _delete_groups(self, groups: Iterable[str]) -> list[str]:
        """Delete groups and their offsets; return the groups that have members and were not deleted."""
        with self._client() as client:
            return [group for group, error in delete_groups(client, [*groups]).items() if isinstance(error, KafkaError)]


def name_broker_methods(kind: type) -> None:
    """Let errors about the arguments of a method name it `broker.records()`: users do not know the class."""
    for name, function in vars(kind).items():
        if isinstance(function, FunctionType) and not name.startswith("_"):
            function.__qualname__ = f"broker.{name}"


name_broker_methods(Wire)


def _level(isolation: str) -> int:
    if isolation not in ISOLATION_LEVELS:
        raise BrokerError(f"records: isolation must be one of {', '.join(ISOLATION_LEVELS)}, got {isolation!r}")
    return ISOLATION_LEVELS[isolation]


def _topic(client: Client, name: str, end_s: float) -> k03_metadata.TopicResult:
    """Return a topic; wait for it if it does not exist yet."""
    while True:
        try:
            return client.topic(name)
        except UnknownTopicOrPartition:
            if time.monotonic() > end_s:
                raise
            time.sleep(_POLL_INTERVAL_S)


def _bytes(value: Value) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return value if value is None else bytes(value)
    raise TypeError(f"{value!r} is neither bytes nor str nor None: encode it, for example with json.dumps(...)")


def _read(client: Client, topic: str, partitions: list[int], isolation: int, *, count: int, end_s: float) -> list[FoundRecord]:
    """Read up to the present ends, and then until there are `count` records or the time is up."""
    starts = _offsets(client, topic, partitions, EARLIEST, isolation)
    ends = _offsets(client, topic, partitions, LATEST, isolation)
    consumer = Consumer(client, topic, starts, isolation=isolation)
    found: list[FoundRecord] = []
    while True:
        is_at_end = all(consumer.positions[each] >= ends[each] for each in partitions)
        if is_at_end and (len(found) >= count or time.monotonic() > end_s):
            return found
        for each in consumer.poll(_MAX_WAIT_MS if is_at_end else _POLL_MS):
            record = each.record
            found.append(FoundRecord(topic, each.partition, record.offset, record.timestamp, record.key, record.value, record.headers))


def _offsets(client: Client, topic: str, partitions: list[int], time_: int, isolation: int) -> dict[int, int]:
    found = list_offsets(client, {(topic, each): time_ for each in partitions}, isolation=isolation)
    offsets = {}
    for (_, index), answer in found.items():
        if isinstance(answer, KafkaError):
            raise answer
        offsets[index] = answer.offset
    return offsets


def _is_assigned(group: DescribedGroup, members: int) -> bool:
    return (
        group.state == _STABLE
        and len(group.members) >= members
        and all(member.target_assignment in {None, member.assignment} for member in group.members)
    )


def _not_assigned(group: str, members: int, found: DescribedGroup | KafkaError, timeout_s: float) -> str:
    if isinstance(found, KafkaError):
        seen = "there is no such group: has its consumer subscribed, and is it polled?"
    else:
        seen = f"it is {found.state} with {len(found.members)} member{'' if len(found.members) == 1 else 's'}"
    return f"group {group!r} did not have {members} assigned members within {timeout_s:g} s: {seen}"
