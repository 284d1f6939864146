"""Whole transactions through a broker without sockets, against a plain model of who has written what.

Producers of both protocols (KIP-890 and before) begin, write, commit offsets, commit and abort on the partitions of one topic; zombies and
retries go on; transactions time out, ids are taken over, records are deleted, the broker is stopped or killed and started again. The model
knows each partition's offsets, one by one, and which transaction they belong to. After every step, for every partition
  - read_committed readers get the committed records and those without a transaction, whatever range they ask for, nothing else
  - the aborted transactions that they are told are those of the range, no more and no less
  - the last stable offset is the first offset of an open transaction, or the end; it never goes back
  - committed offsets are those of ended transactions, in the order of their commits; those of open ones are told as unstable
  - a waiting fetch under read_committed is answered when the last stable offset moves, and not before
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minibroker.clock import ManualClock
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k21_delete_records as k21
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k25_add_offsets_to_txn as k25
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k28_txn_offset_commit as k28
from minibroker.schemas import k65_describe_transactions as k65
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.soak import examples

TOPIC = "orders"
GROUP = "readers"
UNSTABLE = 88
PARTITIONS = 2
NAMES = ["a", "b", "c"]
SCAN_MS = 10_000  #: transaction.abort.timed.out.transaction.cleanup.interval.ms
PARK_MS = 40_000
OWNERS = st.integers(0, len(NAMES) - 1)


class Transaction:
    """What the model knows of one."""

    def __init__(self, name: str, ids: ProducerIdAndEpoch, began_ms: int, timeout_ms: int) -> None:
        self.name = name
        self.producer_id = ids.producer_id
        self.began_ms = began_ms
        self.timeout_ms = timeout_ms
        self.outcome: bool | None = None  #: None while it is open, then whether it was committed
        self.partitions: set[int] = set()
        self.first: dict[int, int] = {}  #: offset of its first record, by partition
        self.last: dict[int, int] = {}  #: offset of its marker, by partition
        self.offsets: dict[int, tuple[int, int]] = {}  #: by partition: which commit it is, and the committed offset


class Session:
    """A producer, or a zombie."""

    def __init__(self, name: str, ids: ProducerIdAndEpoch, *, bumps: bool, timeout_ms: int) -> None:
        self.name = name
        self.ids = ids
        self.bumps = bumps  #: it speaks KIP-890's protocol
        self.timeout_ms = timeout_ms
        self.sequences: dict[int, int] = {}


class Offset:
    """What lies at one offset."""

    def __init__(self, value: bytes | None, transaction: Transaction | None) -> None:
        self.value = value  #: None: a marker
        self.transaction = transaction


class Transactions(RuleBasedStateMachine):
    """One broker."""

    broker: BrokerInMemory

    @initialize(
        segment_bytes=st.sampled_from([250, 600, 1 << 20]), flush_messages=st.sampled_from([1, 1 << 40]), seed=st.integers(0, 1 << 30)
    )
    def start(self, segment_bytes: int, flush_messages: int, seed: int) -> None:
        self.random = Random(seed)
        config = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "1"}
        config["log.flush.interval.messages"] = str(flush_messages)
        self.broker = BrokerInMemory(config=config, clock=ManualClock())
        configs = {"segment.bytes": str(segment_bytes), "index.interval.bytes": "0", "retention.bytes": "1500"}
        self.broker.cluster.create_topic(TOPIC, partition_count=PARTITIONS, configs=configs)
        found = self.ask(k10.Request(coordinator_keys=NAMES, key_type=1))
        assert [each.error_code for each in found.coordinators] == [0, 0, 0]
        assert self.ask(k10.Request(coordinator_keys=[GROUP], key_type=0)).coordinators[0].error_code == 0
        self.log: list[list[Offset]] = [[] for _ in range(PARTITIONS)]
        self.starts = [0] * PARTITIONS
        self.stable = [0] * PARTITIONS  #: the largest last stable offset that was seen
        self.values = count()
        self.sessions: list[Session] = []
        self.owner: dict[str, ProducerIdAndEpoch] = {}
        self.open: dict[str, Transaction] = {}
        self.ended: list[Transaction] = []
        self.commits = count(1)
        self.committed: dict[int, tuple[int, int]] = {}  #: as Transaction.offsets
        self.sent_ends: list[tuple[k26.Request, int]] = []
        self.parked: dict[int, tuple[Pending, int, int]] = {}  #: the fetch, its offset, and when it is answered anyhow
        for name, bumps in zip(NAMES, (True, False, True), strict=True):
            self.init(name, bumps, 60_000)

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The answer, which may wait for a sync at the end of the turn, and for the next one."""
        pending = self.broker.begin(request, version)
        for _ in range(10):
            if pending.is_done:
                break
            self.broker.clock.advance(0)
        return pending.answer()

    # -- the model ---------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    def last_stable_offset(self, index: int) -> int:
        firsts = [each.first[index] for each in self.open.values() if index in each.first]
        return max(self.starts[index], min(firsts, default=len(self.log[index])))

    def begin(self, session: Session) -> Transaction:
        if session.name not in self.open:
            self.open[session.name] = Transaction(session.name, session.ids, self.now_ms, session.timeout_ms)
        return self.open[session.name]

    def end(self, name: str, *, commit: bool) -> None:
        transaction = self.open.pop(name)
        transaction.outcome = commit
        if commit:
            for index, each in transaction.offsets.items():
                self.committed[index] = max(self.committed.get(index, each), each)
        for index in transaction.partitions:
            transaction.last[index] = len(self.log[index])
            self.log[index].append(Offset(None, transaction))
        self.ended.append(transaction)

    def fence(self, name: str) -> None:
        self.end(name, commit=False)
        ids = self.owner[name]
        self.owner[name] = ids._replace(producer_epoch=ids.producer_epoch + 1)

    def is_owner(self, session: Session) -> bool:
        return session.ids == self.owner[session.name]

    # -- producers ---------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), bumps=st.booleans(), timeout_ms=st.sampled_from([15_000, 60_000]))
    def init(self, name: str, bumps: bool, timeout_ms: int) -> None:
        if name in self.open:
            self.fence(name)
        request = k22.Request(transactional_id=name, transaction_timeout_ms=timeout_ms)
        answer = self.ask(request, 5 if bumps else 3)
        assert answer.error_code == 0
        ids = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        if name in self.owner:
            before = self.owner[name]
            assert ids == before._replace(producer_epoch=before.producer_epoch + 1)
        self.owner[name] = ids
        self.sessions.append(Session(name, ids, bumps=bumps, timeout_ms=timeout_ms))

    @rule(
        writes=st.lists(st.tuples(OWNERS, st.integers(0, PARTITIONS - 1), st.integers(1, 3)), min_size=1, max_size=6),
        ends=st.lists(st.tuples(OWNERS, st.booleans()), max_size=3),
    )
    def interleave(self, writes: list[tuple[int, int, int]], ends: list[tuple[int, bool]]) -> None:
        """Owners write, and some of them end what they wrote: most of what goes on."""
        for who, index, records in writes:
            self.write(who, True, index, records)
        for who, commit in ends:
            self.end_by_its_producer(who, True, commit)

    interleave_once_more = interleave
    interleave_again = interleave

    @rule(who=st.integers(0, 30), recent=st.booleans(), index=st.integers(0, PARTITIONS - 1), records=st.integers(1, 3))
    def write(self, who: int, recent: bool, index: int, records: int) -> None:
        session = self._session(who, recent)
        transaction = self._reach(session, index)
        values = [b"%d" % next(self.values) for _ in range(records)]
        sequence = session.sequences.get(index, 0)
        code, base_offset = self._produce(session, index, values, sequence)
        if transaction is None:
            assert code != 0
            return
        assert (code, base_offset) == (0, len(self.log[index]))
        transaction.first.setdefault(index, base_offset)
        self.log[index] += [Offset(value, transaction) for value in values]
        session.sequences[index] = sequence + records

    @rule(who=st.integers(0, 30), index=st.integers(0, PARTITIONS - 1))
    def reach_in_vain(self, who: int, index: int) -> None:
        """The transaction reaches the partition, its records do not: there are none, or a sequence was left out."""
        session = self._session(who, True)
        if not session.bumps:
            self._reach(session, index)
        if index in session.sequences:  # before its first records Apache Kafka takes any
            self._reach(session, index)
            code, _ = self._produce(session, index, [b"never"], session.sequences[index] + 7)
            assert code != 0

    def _session(self, who: int, recent: bool) -> Session:
        """The owner of an id, if it was not fenced by a time-out; or anybody."""
        if not recent:
            return self.sessions[who % len(self.sessions)]
        return [each for each in self.sessions if each.name == NAMES[who % len(NAMES)]][-1]

    def _reach(self, session: Session, index: int) -> Transaction | None:
        """Before a write: the transaction that it belongs to, None where the producer is fenced."""
        if not session.bumps:
            request = k24.Request(
                v3_and_below_transactional_id=session.name,
                v3_and_below_producer_id=session.ids.producer_id,
                v3_and_below_producer_epoch=session.ids.producer_epoch,
                v3_and_below_topics=[k24.Topic(name=TOPIC, partitions=[index])],
            )
            answer = self.ask(request, 3)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            assert code == (0 if self.is_owner(session) else 90)
        if not self.is_owner(session):
            return None
        transaction = self.begin(session)
        transaction.partitions.add(index)
        return transaction

    def _produce(self, session: Session, index: int, values: list[bytes], sequence: int) -> tuple[int, int]:
        rows = [Record(number, self.now_ms, b"k", value, ()) for number, value in enumerate(values)]
        producer_id, producer_epoch = session.ids
        data = bytes(
            build_batch(rows, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, is_transactional=True)
        )
        partition = k00.Partition(index=index, records=data)
        topic = k00.Topic(name=TOPIC, partition_data=[partition])
        request = k00.Request(transactional_id=session.name, acks=-1, timeout_ms=1_000, topic_data=[topic])
        result = self.ask(request, 12 if session.bumps else 11).responses[0].partition_responses[0]
        return result.error_code, result.base_offset

    # -- committed offsets -------------------------------------------------------------------------------------------

    @rule(who=st.integers(0, 30), recent=st.booleans(), index=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 99))
    def commit_offset(self, who: int, recent: bool, index: int, offset: int) -> None:
        session = self._session(who, recent)
        ids: dict[str, Any] = {
            "transactional_id": session.name,
            "producer_id": session.ids.producer_id,
            "producer_epoch": session.ids.producer_epoch,
        }
        is_owner = self.is_owner(session)
        if not session.bumps:
            assert self.ask(k25.Request(group_id=GROUP, **ids), 3).error_code == (0 if is_owner else 90)
            if is_owner:
                self.begin(session)
        partition = k28.Partition(partition_index=index, committed_offset=offset, committed_metadata="")
        request = k28.Request(group_id=GROUP, topics=[k28.Topic(name=TOPIC, partitions=[partition])], **ids)
        code = self.ask(request, 5 if session.bumps else 3).topics[0].partitions[0].error_code
        if is_owner:
            assert code == 0
            self.begin(session).offsets[index] = next(self.commits), offset
        else:
            assert code in (47, 49)

    @rule(index=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 99))
    def commit_offset_without_a_transaction(self, index: int, offset: int) -> None:
        partition = k08.Partition(partition_index=index, committed_offset=offset, committed_metadata="")
        request = k08.Request(group_id=GROUP, member_id="", topics=[k08.Topic(name=TOPIC, partitions=[partition])])
        assert self.ask(request, 9).topics[0].partitions[0].error_code == 0
        self.committed[index] = next(self.commits), offset

    @invariant()
    def committed_offsets_are_those_of_the_model(self) -> None:
        for require_stable in (False, True):
            topic = k09.GroupTopic(name=TOPIC, partition_indexes=list(range(PARTITIONS)))
            request = k09.Request(groups=[k09.Group(group_id=GROUP, topics=[topic])], require_stable=require_stable)
            for each in self.ask(request, 9).groups[0].topics[0].partitions:
                is_pending = any(each.partition_index in transaction.offsets for transaction in self.open.values())
                if require_stable and is_pending:
                    assert (each.error_code, each.committed_offset) == (UNSTABLE, -1)
                else:
                    _, offset = self.committed.get(each.partition_index, (0, -1))
                    assert (each.error_code, each.committed_offset) == (0, offset)

    @rule(index=st.integers(0, PARTITIONS - 1), records=st.integers(1, 3))
    def write_without_a_transaction(self, index: int, records: int) -> None:
        values = [b"%d" % next(self.values) for _ in range(records)]
        rows = [Record(number, self.now_ms, b"k", value, ()) for number, value in enumerate(values)]
        assert self.broker.append(TOPIC, index, bytes(build_batch(rows))).base_offset == len(self.log[index])
        self.log[index] += [Offset(value, None) for value in values]

    # -- ends --------------------------------------------------------------------------------------------------------

    @rule(who=st.integers(0, 30), recent=st.booleans(), commit=st.booleans())
    def end_by_its_producer(self, who: int, recent: bool, commit: bool) -> None:
        session = self._session(who, recent)
        request = k26.Request(
            transactional_id=session.name, producer_id=session.ids.producer_id, producer_epoch=session.ids.producer_epoch, committed=commit
        )
        version = 5 if session.bumps else 3
        answer = self.ask(request, version)
        if self.is_owner(session) and session.name in self.open:
            assert answer.error_code == 0
            self.sent_ends.append((request, version))
            self.end(session.name, commit=commit)
            if session.bumps:
                self.owner[session.name] = session.ids._replace(producer_epoch=session.ids.producer_epoch + 1)
        elif session.bumps and self.is_owner(session) and not commit:
            assert answer.error_code == 0
            self.owner[session.name] = session.ids._replace(producer_epoch=session.ids.producer_epoch + 1)
        elif not session.bumps and self.is_owner(session):
            assert answer.error_code in (0, 48)  # nothing is open: OK where the last one ended so
        elif answer.error_code == 0:  # it was fenced by a time-out, and is told the epoch after that
            assert session.bumps
            assert not commit
        else:
            assert answer.error_code in (48, 90)
        if answer.error_code == 0 and session.bumps:
            assert (answer.producer_id, answer.producer_epoch) == self.owner[session.name]
            session.ids = self.owner[session.name]
            session.sequences.clear()

    @precondition(lambda self: self.sent_ends)
    @rule(which=st.integers(0, 40))
    def delayed_end(self, which: int) -> None:
        """An EndTxn arrives once more. One of KIP-890 changes nothing; an older one may end the next transaction of its producer."""
        request, version = self.sent_ends[which % len(self.sent_ends)]
        answer = self.ask(request, version)
        ids = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        if version < 5 and request.transactional_id in self.open and self.owner[request.transactional_id] == ids:
            assert answer.error_code == 0
            self.end(request.transactional_id, commit=request.committed)

    # -- time, crashes, retention ------------------------------------------------------------------------------------

    @rule(elapsed_ms=st.sampled_from([100, 5_000, 16_000, 75_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.broker.clock.advance(elapsed_ms)
        timed_out = []
        for name, transaction in self.open.items():
            age_ms = self.now_ms - transaction.began_ms - transaction.timeout_ms
            state = self.ask(k65.Request(transactional_ids=[name])).transaction_states[0].transaction_state
            assert state == "Ongoing" if age_ms <= 0 else age_ms <= SCAN_MS or state == "CompleteAbort"
            if state == "CompleteAbort":
                timed_out.append(transaction)
        self.time_out(timed_out)

    def time_out(self, transactions: list[Transaction]) -> None:
        """Which of them the broker ended first, only it can tell."""
        lengths = [len(log) for log in self.log]
        for each in transactions:
            self.fence(each.name)
        for index, length in enumerate(lengths):
            order: list[int] = []
            while length + len(order) < len(self.log[index]):  # an answer ends where a segment does
                request = self.fetch_request(index, length + len(order), 1 << 20, isolation_level=0)
                batches = list(split_batches(bytes(self.ask(request, 11).responses[0].partitions[0].records)))
                assert batches
                order += [batch.producer_id for batch in batches]
            for transaction in transactions:
                if index in transaction.partitions:
                    transaction.last[index] = length + order.index(transaction.producer_id)
                    self.log[index][transaction.last[index]] = Offset(None, transaction)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.parked.clear()
        for directory in self.broker.cluster.log_directories:  # else a crash brings deleted records back, as in Apache Kafka
            directory.write_checkpoints(directory.checkpoint())
        self.broker = self.broker.restart(clean=clean)

    @rule(index=st.integers(0, PARTITIONS - 1), share=st.floats(0, 1))
    def delete_records(self, index: int, share: float) -> None:
        offset = self.starts[index] + int(share * (len(self.log[index]) - self.starts[index]))
        partition = k21.Partition(partition_index=index, offset=offset)
        answer = self.ask(k21.Request(topics=[k21.Topic(name=TOPIC, partitions=[partition])], timeout_ms=1_000))
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (0, offset)
        self.starts[index] = offset

    # -- readers -----------------------------------------------------------------------------------------------------

    def list_offset(self, index: int, timestamp: int, isolation_level: int) -> int:
        partition = k02.Partition(partition_index=index, timestamp=timestamp)
        topic = k02.Topic(name=TOPIC, partitions=[partition])
        result = self.ask(k02.Request(replica_id=-1, isolation_level=isolation_level, topics=[topic])).topics[0].partitions[0]
        assert result.error_code == 0
        return int(result.offset)

    def fetch_request(self, index: int, offset: int, max_bytes: int, *, isolation_level: int = 1, max_wait_ms: int = 0) -> k01.Request:
        partition = k01.Partition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        return k01.Request(
            max_wait_ms=max_wait_ms,
            min_bytes=1 if max_wait_ms else 0,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=[k01.Topic(topic=TOPIC, partitions=[partition])],
        )

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        for index in range(PARTITIONS):
            start = self.list_offset(index, -2, 0)
            assert start >= self.starts[index]  # retention deletes segments by itself
            self.starts[index] = start
            assert self.list_offset(index, -1, 0) == len(self.log[index])
            stable = self.list_offset(index, -1, 1)
            assert stable == self.last_stable_offset(index)
            assert stable >= self.stable[index]
            self.stable[index] = stable

    @invariant()
    def readers_see_what_the_model_says(self) -> None:
        for index in range(PARTITIONS):
            stable = self.stable[index]
            offset = self.random.randint(self.starts[index], stable)
            self.check_fetch(index, offset, self.random.choice([1, 150, 400, 1 << 20]))
            seen: dict[int, bytes | None] = {}
            offset = self.starts[index]
            while offset < stable:
                found, offset = self.check_fetch(index, offset, 1 << 20)
                seen |= found
            expected = {
                number: each.value
                for number, each in enumerate(self.log[index][:stable])
                if number >= self.starts[index] and each.value is not None and (each.transaction is None or each.transaction.outcome)
            }
            assert seen == expected
            self.check_uncommitted(index)

    def check_uncommitted(self, index: int) -> None:
        offset, end = self.starts[index], len(self.log[index])
        while offset < end:
            answer = self.ask(self.fetch_request(index, offset, 1 << 20, isolation_level=0), 11).responses[0].partitions[0]
            assert (answer.error_code, answer.aborted_transactions) == (0, None)
            for batch in split_batches(bytes(answer.records)):
                for record in decode_records(batch):
                    if record.offset >= offset:
                        expected = self.log[index][record.offset].value
                        assert (None if batch.is_control else record.value) == expected
                offset = batch.next_offset

    def check_fetch(self, index: int, offset: int, max_bytes: int) -> tuple[dict[int, bytes | None], int]:
        """What a consumer makes of one fetch: its records, and where it goes on."""
        answer = self.ask(self.fetch_request(index, offset, max_bytes), 11).responses[0].partitions[0]
        assert answer.error_code == 0
        assert answer.last_stable_offset == self.last_stable_offset(index)
        batches = list(split_batches(bytes(answer.records)))
        assert bool(batches) == (offset < answer.last_stable_offset)
        upto = batches[-1].next_offset if batches else offset
        assert upto <= answer.last_stable_offset
        results = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]
        expected = [
            (each.producer_id, each.first[index])
            for each in self.ended
            if batches and not each.outcome and index in each.first and each.first[index] < upto and each.last[index] >= offset
        ]
        assert sorted(results) == sorted(expected), f"aborted within {offset} to {upto} of {index}: {results}, not {expected}"
        return self.filtered(batches, offset, results), upto

    def filtered(self, batches: list[Any], offset: int, told: list[tuple[int, int]]) -> dict[int, bytes | None]:
        """As consumers leave out the records of aborted transactions."""
        waiting = sorted(told, key=lambda each: each[1])
        aborting: set[int] = set()
        found: dict[int, bytes | None] = {}
        for batch in batches:
            while waiting and waiting[0][1] <= batch.last_offset:
                aborting.add(waiting.pop(0)[0])
            if batch.is_control:
                if parse_control_key(next(decode_records(batch)).key) is ControlType.ABORT:
                    aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborting):
                found |= {record.offset: record.value for record in decode_records(batch) if record.offset >= offset}
        return found

    @invariant()
    def waiting_fetches_are_answered_when_the_last_stable_offset_moves(self) -> None:
        self.broker.clock.advance(0)  # the end of the turn
        for index in range(PARTITIONS):
            stable = self.stable[index]
            if index in self.parked:
                pending, offset, until_ms = self.parked[index]
                assert pending.is_done == (stable > offset or self.now_ms >= until_ms or self.starts[index] > offset)
                if pending.is_done:
                    del self.parked[index]
            if index not in self.parked:
                request = self.fetch_request(index, stable, 1 << 20, max_wait_ms=PARK_MS)
                self.parked[index] = self.broker.begin(request, 11), stable, self.now_ms + PARK_MS


TestTransactions = Transactions.TestCase
TestTransactions.settings = examples(60, stateful_step_count=20)
