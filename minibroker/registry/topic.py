"""The topic `_schemas` on the broker: appends records, and replays all that are in it.

Clients may write to it as well, such as another registry on the same topic. So a change of ours is
appended, and then read back with everything that came before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.dispatch.flush import FlushFailures, FlushQueue
from minibroker.errors import KafkaError, WireError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.registry.errors import schema_too_large, store_failed
from minibroker.registry.records import Key, NotARecord, own_key, read_key, read_value
from minibroker.registry.state import RegistryState

SCHEMAS_TOPIC: Final = "_schemas"
_READ_BYTES: Final = 64 * 1024  #: in one turn of the loop
_LOGGED_MAX: Final = 10  #: unreadable records that are reported one by one

Change = tuple[bytes, bytes | None]  #: key and value; None is a tombstone

_LOG = logging.getLogger(__name__)


class Services(Protocol):
    """What the registry needs of a broker."""

    @property
    def cluster(self) -> Cluster:
        """Topics and logs."""

    @property
    def clock(self) -> Clock:
        """The broker's time."""

    @property
    def flush_queue(self) -> FlushQueue:
        """Syncs logs whose topic wants that for each record."""


class SchemasTopic:
    """The registry's view of its topic. It is read again from its start after it was deleted, or the broker's data were exchanged."""

    def __init__(self, services: Callable[[], Services], name: str = SCHEMAS_TOPIC) -> None:
        """`services` returns those of the running broker, which the test kit may replace."""
        self._services = services
        self.name = name
        self.state = RegistryState()
        self.change_count = 0  #: a number that grows with each change of the state
        self._replayed: Partition | None = None  #: whose records the state has
        self._next_offset = 0
        self._unreadable = 0
        self._other_keys: dict[Key, set[bytes]] = {}  #: keys that other registries spelled differently
        self._reading = asyncio.Lock()
        self.writing = asyncio.Lock()  #: held from the check of a change until its records are replayed

    async def catch_up(self) -> RegistryState:
        """Replay all records that are in the topic now. Raises RegistryError (500) if it cannot be read."""
        try:
            if self._is_behind():
                async with self._reading:
                    while self._is_behind():
                        self._replay_some(self._partition())
                        await asyncio.sleep(0)
        except (KafkaError, WireError) as error:
            raise store_failed(f"cannot read the topic {self.name}: {error}") from error
        return self.state

    def catch_up_in_steps(self) -> Iterator[None]:
        """Do the same in the slices of a request (dispatch/slices.py)."""
        try:
            while self._is_behind():
                self._replay_some(self._partition())
                yield
        except (KafkaError, WireError) as error:
            raise store_failed(f"cannot read the topic {self.name}: {error}") from error

    def _is_behind(self) -> bool:
        topic = self._services().cluster.topics.get(self.name)
        partition = None if topic is None else topic.partitions[0]
        if partition is not self._replayed:  # deleted, or other data: the topic of a snapshot has the same id
            self.state = RegistryState()
            self.change_count += 1
            self._other_keys = {}
            self._next_offset = 0
            self._replayed = partition
        if partition is None:
            return False
        return not partition.is_unopened and self._next_offset < partition.log.log_end_offset

    def _partition(self) -> Partition:
        """The topic's only partition; the topic is created if it does not exist. Raises KafkaError."""
        cluster = self._services().cluster
        topic = cluster.topics.get(self.name)
        if topic is None:
            topic = cluster.create_topic(self.name, partition_count=1, configs={"cleanup.policy": "compact"})
        return topic.partitions[0]

    def _replay_some(self, partition: Partition) -> None:
        log = partition.log
        offset = max(self._next_offset, log.log_start_offset)
        batches = [*split_batches(log.read(offset, _READ_BYTES, isolation=None))]
        self._next_offset = log.log_end_offset  # where compaction left no records after the offset
        for batch in batches:
            self._next_offset = batch.next_offset
            if not batch.is_control:
                self._replay_records(decode_records(batch))

    def _replay_own(self, partition: Partition, base_offset: int, records: Sequence[Record]) -> None:
        """Replay what was just appended without reading it from the log, unless there are other records before it."""
        if partition is self._replayed and base_offset == self._next_offset:
            self._next_offset = base_offset + len(records)
            self._replay_records(records)

    def _replay_records(self, records: Iterable[Record]) -> None:
        self.change_count += 1
        for record in records:
            try:
                key, value = read_key(record.key), read_value(record.value)
                self.state.replay(key, value)
                self._remember_spelling(key, bytes(record.key or b""), is_tombstone=value is None)
            except NotARecord as error:
                self._unreadable += 1
                if self._unreadable <= _LOGGED_MAX:
                    _LOG.warning("%s: skipped the record at offset %d: %s", self.name, record.offset, error)

    def _remember_spelling(self, key: Key, data: bytes, *, is_tombstone: bool) -> None:
        if data != own_key(key):
            spellings = self._other_keys.setdefault(key, set())
            spellings.discard(data) if is_tombstone else spellings.add(data)

    def _with_other_spellings(self, changes: Sequence[Change]) -> list[Change]:
        """The changes; where one is a tombstone, the key's other spellings get one as well.

        Compaction compares bytes. It would keep a record that another registry wrote under another spelling, and remove our tombstone.
        """
        if not self._other_keys:
            return [*changes]
        found: list[Change] = []
        for data, value in changes:
            others = () if value is not None else sorted(self._other_keys.get(read_key(data), ()))
            found += [*((each, None) for each in others), (data, value)]
        return found

    async def append(self, changes: Sequence[Change]) -> None:
        """Append records in one batch, and replay them.

        Raises:
            RegistryError: a record is too large (422), or the topic cannot be written (500).
        """
        services = self._services()
        now_ms = services.clock.now_ms()
        records = [Record(index, now_ms, key, value) for index, (key, value) in enumerate(self._with_other_spellings(changes))]
        try:
            partition = self._partition()
            log = partition.log
            data = build_batch(records)
            if len(data) > log.config.max_message_bytes:
                raise schema_too_large(len(data), log.config.max_message_bytes)
            appended = partition.append_own(data)
            self._replay_own(partition, appended.base_offset, records)
        except KafkaError as error:
            raise store_failed(f"cannot write the topic {self.name}: {error}") from error
        if log.wants_sync:
            failures: asyncio.Future[FlushFailures] = asyncio.get_running_loop().create_future()
            services.flush_queue.flush([log], failures.set_result)
            if log in await failures:
                raise store_failed(f"cannot write the topic {self.name}: its log could not be synced")
        await self.catch_up()
