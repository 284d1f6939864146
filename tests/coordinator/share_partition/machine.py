"""A share partition alone: its log is a list of batches, what it persists is kept, its clock moves only when a test moves it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from minibroker.clock import ManualClock
from minibroker.cluster.configs.group_config import GroupConfig, GroupConfigs
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement
from minibroker.coordinator.share_partition.acquiring import Acquired, AcquireRequest, Extent
from minibroker.coordinator.share_partition.share_partition import SharePartition
from minibroker.coordinator.share_state.records import InitialState, ShareState, StateBatch, StateKey, StateUpdate
from minibroker.coordinator.share_state.states import ShareStates
from minibroker.errors import KafkaStorageError

KEY = StateKey("workers", UUID(int=7), 0)
LOCK_MS = 30_000
BATCH_SIZE = 500


class Machine:
    """A share partition, a log of batches that begin at 0 and follow each other, and the share coordinator's memory."""

    def __init__(self, *batch_sizes: int, delivery_count_limit: int = 5, max_locks: int = 2000, may_renew: bool = True) -> None:
        self.clock = ManualClock()
        self.config: GroupConfig = (
            GroupConfigs(BrokerConfig(), lambda _: {})
            .of(KEY.group_id)
            ._replace(
                share_delivery_count_limit=delivery_count_limit,
                share_partition_max_record_locks=max_locks,
                share_renew_acknowledge_enable=may_renew,
                share_record_lock_duration_ms=LOCK_MS,
            )
        )
        self.log: list[Extent] = []
        for size in batch_sizes:
            self.produce(size)
        self.states = ShareStates(lambda _topic_id, _partition: True, lambda: 500)
        self.is_log_broken = False
        self.updates: list[StateUpdate] = []
        self.states.replay(self.states.initialize(KEY.group_id, InitialState(KEY.topic_id, 0, 1, 0), self.clock.now_ms()), 0)
        self.woken = 0
        self.start()

    @property
    def state(self) -> ShareState:
        """What a broker that starts now would read."""
        return self.states.read(KEY, -1, 0)[0]

    def start(self) -> None:
        """Another broker takes over: of the old machine only what was persisted is left."""
        self.share = SharePartition(
            KEY,
            self.state,
            start_offset=self.state.start_offset,
            leader_epoch=0,
            config=lambda: self.config,
            persist=self._persist,
            clock=self.clock,
        )
        self.share.subscribe(self._wake)

    def crash(self) -> None:
        self.share.close()
        self.start()

    def produce(self, size: int, *, hole: int = 0) -> None:
        """One more batch; `hole` offsets before it are not in the log."""
        first = (self.log[-1].last_offset + 1 if self.log else 0) + hole
        self.log.append(Extent(first, first + size - 1))

    def compact(self, index: int) -> None:
        """A batch is gone, its neighbours stay."""
        del self.log[index]

    def acquire(
        self, member: str = "a", max_records: int = 500, *, batches: int = 100, batch_size: int = BATCH_SIZE, is_strict: bool = False
    ) -> list[Acquired]:
        """What the member gets of the next `batches` of the log."""
        if not self.share.can_acquire():
            return []
        fetch_offset = self.share.records.next_fetch_offset()
        extents = [each for each in self.log if each.last_offset >= fetch_offset][:batches]
        return self.share.acquire(fetch_offset, extents, AcquireRequest(member, max_records, batch_size, is_strict)) if extents else []

    def offsets(self, member: str = "a", max_records: int = 500, *, batches: int = 100) -> list[int]:
        """The same, offset by offset."""
        found = self.acquire(member, max_records, batches=batches)
        return [offset for each in found for offset in range(each.first_offset, each.last_offset + 1)]

    def acknowledge(self, first: int, last: int, *types: int, member: str = "a") -> None:
        self.share.acknowledge(member, [Acknowledgement(first, last, types)])

    def persisted(self) -> Sequence[StateBatch]:
        return self.state.batches

    def _persist(self, update: StateUpdate) -> None:
        if self.is_log_broken:
            raise KafkaStorageError
        self.updates.append(update)
        self.states.replay(self.states.write(KEY, update, self.clock.now_ms()), len(self.updates))

    def _wake(self) -> None:
        self.woken += 1
