"""Transactions on a machine where things go wrong and come back: writes that fail, partitions that go offline, syncs that take their
time, restarts in between. A client that asks again until it is told gets what it asked for, in every partition or in none.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import KafkaError, KafkaStorageError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k26_end_txn as k26
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.faulty_files import FaultyFiles
from tests.support.transactional_ids import coordinator_of, is_stable, state_of, write

PARTITIONS = 4
RETRIED = {14, 15, 16, 51, 56}
NOT_A_DISK = errno.EINVAL  #: no reason to take the whole directory offline


class Shop:
    """One transactional id, its client, and the machine it depends on."""

    def __init__(self, random: Random, *, is_synced: bool, bumps: bool) -> None:
        self.random = random
        self.version = 5 if bumps else 4
        self.files = FaultyFiles()
        config = {"log.flush.interval.messages": "1" if is_synced else "1000", "transaction.state.log.num.partitions": "1"}
        self.broker = BrokerInMemory(topics={"a": PARTITIONS}, config=config, files=self.files)
        self._before: list[BrokerInMemory] = []  #: the first of them owns the folder
        self.offline: dict[int, Any] = {}
        self.outcomes: dict[int, bool] = {}  #: by the number of the transaction, as the client was told
        self.number = 0
        coordinator_of(self.broker)
        self.ids = self._init()

    def _told(self, request: Any, version: int) -> Any:
        """The answer that is not `ask again`; faults end some time."""
        for attempt in range(60):
            pending = self.broker.begin(request, version)
            self.broker.clock.advance(0)
            while not pending.is_done:
                self.broker.clock.advance(1)
            answer = pending.answer()
            if answer.error_code not in RETRIED:
                return answer
            self.broker.clock.advance(500)
            if attempt == 10:
                self.mend()
        raise AssertionError(f"asked again for ever: {answer}")

    def _init(self) -> ProducerIdAndEpoch:
        answer = self._told(k22.Request(transactional_id="payments", transaction_timeout_ms=900_000), 5)
        assert answer.error_code == 0
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def transaction(self) -> None:
        """One, with faults at any place of it."""
        self.number += 1
        commit = self.random.random() < 0.7
        reached = self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS))
        sequences = dict.fromkeys(reached, 0)
        try:
            self._reach(reached)
            for index in reached:
                write(self.broker, self.ids, "a", index, first=sequences[index], count=self.number)
        except KafkaError:
            commit = False
        self.break_something()
        request = k26.Request(
            transactional_id="payments", producer_id=self.ids.producer_id, producer_epoch=self.ids.producer_epoch, committed=commit
        )
        answer = self._told(request, self.version)
        if answer.error_code:  # nothing was begun
            assert (answer.error_code, commit) == (48, False), answer
        elif self.version == 5:
            self.ids = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        if not answer.error_code:
            self.outcomes[self.number] = commit
        if self.version == 4 or answer.error_code:
            self.ids = self._init()  # sequences begin anew

    def _reach(self, indexes: list[int]) -> None:
        partitions = frozenset(("a", index) for index in indexes)
        coordinator = self.broker.services.coordinators.transactions
        if self.version == 5:
            coordinator.add_now("payments", self.ids, partitions)
            return
        outcomes: list[Any] = []
        coordinator.add_partitions("payments", self.ids, partitions, outcomes.append)
        self.broker.clock.advance(0)
        if isinstance(outcomes[0], KafkaError):
            raise outcomes[0]

    def break_something(self) -> None:
        what = self.random.randrange(6)
        if what == 0:
            self.files.fail("write", NOT_A_DISK, path_part=f"a-{self.random.randrange(PARTITIONS)}/", times=self.random.randint(1, 3))
        elif what == 1:
            after, times = self.random.randrange(3), self.random.randint(1, 3)
            self.files.fail("write", NOT_A_DISK, path_part="__transaction_state", after=after, times=times)
        elif what == 2:
            index = self.random.randrange(PARTITIONS)
            if index not in self.offline:
                partition = self.broker.cluster.partition("a", index)
                self.offline[index] = partition.online_log
                partition.take_offline(KafkaStorageError("gone for a while"))
        elif what == 3:
            self.mend()
        elif what == 4:
            self.restart(clean=self.random.random() < 0.5)

    def mend(self) -> None:
        """Everything works again."""
        self.files.heal()
        while self.offline:
            index, log = self.offline.popitem()
            self.broker.cluster.partition("a", index).online_log = log

    def restart(self, *, clean: bool) -> None:
        self.mend()
        self.broker.services.coordinators.stop()
        self.broker.cluster.close(clean=clean)
        self._before.append(self.broker)
        config = self.broker.config.static
        self.broker = BrokerInMemory(folder=self.broker.folder, clock=self.broker.clock, config=config, files=self.files)
        self.broker.clock.advance(0)

    def seen(self, index: int) -> Iterator[tuple[int, bool]]:
        """The transactions of a partition, by the number of their records, and how each ended."""
        log = self.broker.cluster.partition("a", index).log
        number = 0
        offset = 0
        while offset < log.log_end_offset:
            for batch in split_batches(log.read(offset, 1 << 20, isolation=None)):
                offset = batch.next_offset
                if not batch.is_control:
                    assert number == 0, "two transactions at once"
                    number = batch.record_count
                elif number:
                    (record,) = decode_records(batch)
                    yield number, EndTransactionMarker.from_record(record).control_type is ControlType.COMMIT
                    number = 0


@pytest.mark.parametrize("bumps", [True, False])
@pytest.mark.parametrize("is_synced", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_transaction_ends_everywhere_or_nowhere(seed: int, is_synced: bool, bumps: bool) -> None:
    shop = Shop(Random(seed), is_synced=is_synced, bumps=bumps)
    for _ in range(25):
        shop.transaction()
    shop.mend()
    shop.broker.clock.advance(2_000)

    assert state_of(shop.broker) in {"CompleteCommit", "CompleteAbort", "Empty"}
    assert all(is_stable(shop.broker, "a", index) for index in range(PARTITIONS))
    ended = [dict(shop.seen(index)) for index in range(PARTITIONS)]
    assert sum(map(len, ended)) > 25
    for found in ended:
        assert {number: shop.outcomes.get(number, False) for number in found} == found
