"""Random producers, zombies, retries, crashes and failed writes against a plain model of who has which transaction open.

The model knows one thing that the coordinator does not: which transaction each request was meant for. It says
  - an id has one open transaction at most, and only its owner adds to it
  - ids and epochs never go back, and MAX_EPOCH is told to nobody
  - a delayed EndTxn of a client that bumps epochs ends no transaction but the one it was sent for (KIP-890)
    (of a client that stops at a fatal error: a commit that was refused for want of a transaction used up no epoch)
  - a failed write leaves no trace, and the records that were written say the same again after a crash
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minibroker.clock import ManualClock
from minibroker.coordinator.transaction.records import (
    MAX_EPOCH,
    NO_IDS,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    encode,
    replay,
)
from minibroker.coordinator.transaction.states import (
    Decision,
    add_partitions,
    complete,
    end_transaction,
    expire,
    expired,
    fence,
    init_producer_id,
    timed_out,
)
from minibroker.coordinator.transaction.store import TransactionalIds
from minibroker.errors import ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, KafkaError, ProducerFenced
from tests.support.soak import examples

NAME = "payments"
EXPIRATION_MS = 600_000
REFUSALS = (ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced)
PARTITIONS = st.frozensets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)), min_size=1, max_size=3)


class Session:
    """A producer, or what is left of one."""

    def __init__(self, ids: ProducerIdAndEpoch, version: int) -> None:
        self.ids = ids
        self.version = version
        self.transaction: int | None = None  #: the number of the one that it has open, as far as it knows
        self.is_fatal = False  #: it was told that it cannot go on: all that clients do then is InitProducerId


class SentEnd(NamedTuple):
    """An EndTxn that may arrive once more, at any time."""

    ids: ProducerIdAndEpoch
    commit: bool
    version: int
    transaction: int | None


class Coordinator(RuleBasedStateMachine):
    """One transactional id."""

    @initialize(broker=st.sampled_from([2, 2, 2, 1, 0]), epoch=st.sampled_from([0, 0, MAX_EPOCH - 4, MAX_EPOCH - 2]))
    def start(self, broker: int, epoch: int) -> None:
        self.broker = broker
        self.clock = ManualClock()
        self.producer_ids = count(10)
        self.numbers = count(1)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.transactions = TransactionalIds()
        self.sessions: list[Session] = []
        self.sent: list[SentEnd] = []
        self.open: int | None = None
        self.owner = NO_IDS
        self.highest = NO_IDS
        if epoch:
            self._persist(TransactionMetadata(NAME, 5, epoch, 60_000, TransactionState.EMPTY, self.clock.now_ms(), previous_producer_id=5))

    @property
    def state(self) -> TransactionMetadata | None:
        return self.transactions.get(NAME)

    def _persist(self, after: TransactionMetadata) -> None:
        before = self.state
        self.transactions.prepare(after)  # a first attempt fails
        self.transactions.give_up(NAME)
        assert self.transactions.settled(NAME) is before
        self.transactions.prepare(after)
        self.log.append(encode(after, transaction_version=self.broker))
        self.transactions.apply(NAME)
        if after.state is not TransactionState.DEAD:
            assert after.ids >= self.highest
            self.highest = after.ids

    def _take(self, decision: Decision) -> None:
        assert decision.answer.producer_epoch < MAX_EPOCH
        if decision.after is not None:
            self._persist(decision.after)

    def _end(self, sent: SentEnd) -> Decision | type[KafkaError]:
        """Its answer, and the model's word on whether it may end what it ends."""
        try:
            decision = end_transaction(
                self.transactions.settled(NAME),
                sent.ids,
                commit=sent.commit,
                now_ms=self.clock.now_ms(),
                client_transaction_version=sent.version,
                allocate_producer_id=lambda: next(self.producer_ids),
            )
        except REFUSALS as error:
            return type(error)
        if decision.after is not None and self.open is not None:
            assert self.owner == sent.ids
            if sent.version == 2:
                assert self.open == sent.transaction
            self.open = None
        self._take(decision)
        return decision

    @rule(
        version=st.sampled_from([0, 2]),
        says=st.one_of(st.none(), st.integers(0, 20)),
        timeout_ms=st.sampled_from([1_000, 60_000]),
    )
    def init(self, version: int, says: int | None, timeout_ms: int) -> None:
        session = self.sessions[says % len(self.sessions)] if self.sessions and says is not None else None
        was_open = self.open
        try:
            decision = init_producer_id(
                self.transactions.settled(NAME),
                NAME,
                timeout_ms,
                session.ids if session else None,
                now_ms=self.clock.now_ms(),
                transaction_version=self.broker,
                allocate_producer_id=lambda: next(self.producer_ids),
            )
        except REFUSALS:
            return
        self.open = None
        self._take(decision)
        if decision.error is not None:
            assert was_open is not None
            return
        assert was_open is None
        assert self.state is not None
        assert decision.answer == self.state.ids
        if all(each.ids != decision.answer for each in self.sessions):  # else it is a retry, by the same producer
            self.sessions.append(Session(decision.answer, version if self.broker == 2 else 0))

    @precondition(lambda self: self.sessions)
    @rule(who=st.integers(0, 20), recent=st.booleans(), partitions=PARTITIONS)
    def add(self, who: int, recent: bool, partitions: frozenset[tuple[str, int]]) -> None:
        session = self.sessions[-1 if recent else who % len(self.sessions)]
        if session.is_fatal:
            return
        try:
            decision = add_partitions(
                self.transactions.settled(NAME),
                session.ids,
                partitions,
                now_ms=self.clock.now_ms(),
                client_transaction_version=session.version,
            )
        except REFUSALS as error:
            session.is_fatal = not error.retriable
            return
        assert session.ids >= self.highest  # no zombie
        if self.open is None:
            self.open, self.owner = next(self.numbers), session.ids
        assert self.owner == session.ids
        session.transaction = self.open
        self._take(decision)
        assert self.state is not None
        assert partitions <= self.state.partitions

    @precondition(lambda self: self.sessions)
    @rule(who=st.integers(0, 20), recent=st.booleans(), commit=st.booleans())
    def end(self, who: int, recent: bool, commit: bool) -> None:
        session = self.sessions[-1 if recent else who % len(self.sessions)]
        if session.is_fatal:
            return
        sent = SentEnd(session.ids, commit, session.version, session.transaction)
        self.sent.append(sent)
        decision = self._end(sent)
        if not isinstance(decision, Decision):
            session.is_fatal = not decision.retriable
            return
        session.transaction = None
        if session.version == 2:
            session.ids = decision.answer

    @precondition(lambda self: self.sessions and self.open is None)
    @rule(commit=st.booleans(), partitions=PARTITIONS)
    def whole_transaction_and_the_start_of_the_next(self, commit: bool, partitions: frozenset[tuple[str, int]]) -> None:
        self.markers_are_written()
        self.add(who=0, recent=True, partitions=partitions)
        self.end(who=0, recent=True, commit=commit)
        self.markers_are_written()
        self.add(who=0, recent=True, partitions=partitions)

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 40))
    def delayed_end(self, which: int) -> None:
        self._end(self.sent[which % len(self.sent)])

    @precondition(lambda self: self.state and self.state.state.is_prepared)
    @rule()
    def markers_are_written(self) -> None:
        for each in self.transactions.unfinished():
            self._persist(complete(each, now_ms=self.clock.now_ms()))

    @rule(elapsed_ms=st.sampled_from([10, 1_500, 61_000, EXPIRATION_MS]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.clock.advance(elapsed_ms)
        now_ms = self.clock.now_ms()
        for each in timed_out(self.transactions.all_settled(), now_ms=now_ms):
            self.open = None
            fenced = fence(each, now_ms=now_ms, transaction_version=self.broker, allocate_producer_id=lambda: next(self.producer_ids))
            self._persist(fenced)
        for each in expired(self.transactions.all_settled(), now_ms=now_ms, expiration_ms=EXPIRATION_MS):
            assert self.open is None
            self._persist(expire(each))

    @rule()
    def crash(self) -> None:
        before = self.state
        found = replay(self.log)
        if before is None:
            assert found == {}
        else:
            stored = before._replace(last_producer_epoch=-1)
            if self.broker == 0:
                stored = stored._replace(previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0)
            assert found == {NAME: stored}
        self.transactions = TransactionalIds(found)

    @invariant()
    def the_open_transaction_is_the_one_of_the_model(self) -> None:
        state = self.state
        assert (self.open is not None) == (state is not None and state.state is TransactionState.ONGOING)
        if state is not None:
            assert not (state.partitions and state.state.is_idle)
            assert (state.start_timestamp_ms == -1) == (state.state is TransactionState.EMPTY)
            assert 0 <= state.producer_epoch <= MAX_EPOCH


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = examples(150, stateful_step_count=40)
