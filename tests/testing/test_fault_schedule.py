"""Random faults under clients of four makes: what producers were told is what read_committed reads, exactly once and in order.

Each make writes idempotently and in transactions, by turns, while its requests fail, are late, and lose their answers, leaders move,
brokers stop or are killed; a group of the same make reads along. What must be there behind it: tests/support/fault_model.py.

`MINIBROKER_FAULT_SEED` draws a schedule again (clients and their threads have a time of their own: play it some times). A failing run says
all that happened.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from minibroker.records.batch import split_batches
from minibroker.testing import TEMPORARY, BrokerProcess
from minibroker.testing.request_log import WAITING
from tests.clients import transactional
from tests.clients.spoken_clients import SpokenClient, java_client
from tests.clients.transactional import Place
from tests.support.fault_model import Model, Outcome, Sent, Transaction
from tests.support.fault_schedule import PATIENCE_S, Performance, Schedule, Shape, draw, reader
from tests.support.faulted_producers import AIOKafka, Confluent, FaultedProducer, GaveUpError, Java, KafkaPython, Open, transactional_id
from tests.support.faulted_readers import READERS, Reader
from tests.support.soak import IS_SOAK, times

UNITS: Final = times(5, soak=10)  #: of work of each make, in each of which it writes of no transaction and in one
PARTITIONS: Final = 2
RECORDS: Final = 10  #: of each kind in a unit
TIMEOUT_S: Final = 90.0
CONFIG: Final = {"group.min.session.timeout.ms": 300, "group.initial.rebalance.delay.ms": 0}
#: Once its connection broke, librdkafka 2.16 finds the group's coordinator and then asks it for nothing, of Apache Kafka either.
WITHOUT_OFFSETS: Final = {"confluent-kafka"}
#: kafka-python 3.0.12 says of some transactions that they are committed without having sent EndTxn (as the request log shows): a record is
#: refused as out of order behind others that expired, InitProducerId raises the epoch, and with that commit_transaction() returns.
COMMITS_UNASKED: Final = {"kafka-python"}
#: It also commits a transaction whose records it gave up (EndTxn without AddPartitionsToTxn): an application looks at each.
LOOKS_AT_RECORDS: Final = {"kafka-python"}
#: Seen (seeds 201, 211; why is not known): when connections were cut, a consumer of kafka-python 3.0.12 asked nothing for 44 s, and one of
#: librdkafka 2.16 sent heartbeats alone behind an OffsetFetch that was refused. An application would be started again, so the reader is,
#: once; where the client still asks for offsets, records or its group, or waits for them, it counts as the broker's fault.
STANDS_STILL: Final = {"kafka-python", "confluent-kafka"}
IDLE: Final = {"Heartbeat", "Metadata", "ApiVersions", "FindCoordinator"}
#: Seen (seed 302) with librdkafka 2.16: a batch whose answer was REQUEST_TIMED_OUT, and its retry NOT_ENOUGH_REPLICAS, came again with a
#: new epoch and sequence 0, where no broker can know it. We take it that the client forgets that the batch may be in the log; it was not
#: played on Apache Kafka. Only duplicates are passed whose batches on the disk show both epochs of one producer.
SENDS_AGAIN: Final = {"confluent-kafka"}
USUAL_SEED: Final = 311
SOAK_ROUNDS: Final = 5
READ_TIMEOUT_S: Final = 15.0
STILL_MS: Final = 5000
#: What a broker must answer to nothing here, whatever went wrong before
NEVER: Final = ("UNKNOWN_SERVER_ERROR", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID", "CORRUPT_MESSAGE", "INVALID_RECORD")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _check(outcomes: Sequence[int | str]) -> None:
    lost = [each for each in outcomes if isinstance(each, str)]
    if lost:
        raise RuntimeError(f"{len(lost)} records are not acknowledged: {lost[0]}")


class Writer:
    """A make at work, in a thread."""

    def __init__(self, make: str, open_: Open, performance: Performance, bootstrap: str) -> None:
        self.model = Model(make)
        self.gave_up: list[str] = []  #: what the client told instead of going on; a new producer went on for it
        self.done = 0  #: units
        self.failure: BaseException | None = None
        self._make, self._open, self._performance, self._bootstrap = make, open_, performance, bootstrap
        self._chance = random.Random(f"{performance.schedule.seed} {make}")
        self._producers: dict[bool, FaultedProducer] = {}
        self._instances = 0
        self.thread = threading.Thread(target=self._run, name=make, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for unit in range(UNITS):
                self._performance.before_unit(self._make, unit)
                self._write(unit)
                self._write_in_transaction(unit)
                self.done += 1
        except BaseException as error:  # noqa: BLE001  the test tells it
            self.failure = error
        for is_transactional in [*self._producers]:
            self._leave(is_transactional)

    def _producer(self, *, is_transactional: bool) -> FaultedProducer:
        deadline = time.monotonic() + TIMEOUT_S
        while is_transactional not in self._producers:
            try:
                self._producers[is_transactional] = self._open(self._bootstrap, transactional_id(self._make) if is_transactional else None)
                self._instances += 1
            except Exception as error:  # makes have kinds of their own
                self.gave_up.append(f"open: {error!r}")
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)  # aiokafka asks each address once, and a broker is gone now and then
        return self._producers[is_transactional]

    def summary(self) -> str:
        """What was told to the application."""
        outcomes = Counter(each.outcome.value for each in self.model.transactions)
        acknowledged = sum(each.offset is not None for each in self.model.records)
        return (
            f"{self._make}: {acknowledged} of {len(self.model.records)} acknowledged, {dict(outcomes)}; gave up {len(self.gave_up)} times"
        )

    def reasons(self) -> list[str]:
        """Why new producers went on: once each."""
        return [f"  {each[:200]}" for each in dict.fromkeys(self.gave_up)]

    def end_transactions(self) -> None:
        """What was left open ends when a producer of the same id begins, as where an application starts again."""
        self._producer(is_transactional=True)
        self._leave(True)

    def _leave(self, is_transactional: bool) -> None:
        with suppress(Exception):
            self._producers.pop(is_transactional).close()

    def _records(self, unit: int, kind: str) -> list[Sent]:
        topic = f"{kind}-{self._make}"
        places = [Place(topic, self._chance.randrange(PARTITIONS)) for _ in range(RECORDS)]
        return [Sent(place, f"{unit}.{number} {kind}", self._instances) for number, place in enumerate(places)]

    def _write(self, unit: int) -> None:
        producer = self._producer(is_transactional=False)
        records = self._records(unit, "plain")
        self.model.records += records
        try:
            for each in records:
                producer.send(each.place, each.value)
            for each, told in zip(records, producer.outcomes(), strict=True):
                if isinstance(told, int):
                    each.offset = told
                else:
                    self.gave_up.append(f"{each.value} is not acknowledged: {told}")
        except Exception as error:  # noqa: BLE001  as above
            self.gave_up.append(f"unit {unit}: {error!r}")
        if any(each.offset is None for each in records):
            self._leave(False)

    def _write_in_transaction(self, unit: int) -> None:
        producer = self._producer(is_transactional=True)
        transaction = Transaction(Outcome.ABORTED, self._records(unit, "paid"))
        if self._make not in WITHOUT_OFFSETS:
            transaction.committed_offset = unit + 1
        self.model.transactions.append(transaction)
        is_aborted = self._chance.random() < 0.25
        try:
            producer.begin()
            for each in transaction.records:
                producer.send(each.place, each.value)
            if transaction.committed_offset is not None:
                producer.send_offset(f"paid-{self._make}", transaction.records[0].place._replace(partition=0), transaction.committed_offset)
            if is_aborted:
                producer.abort()
                return
            if self._make in LOOKS_AT_RECORDS:
                _check(producer.outcomes())
            transaction.outcome = Outcome.UNKNOWN
            began_ms = _now_ms()
            producer.commit()
            transaction.outcome, transaction.commit_ms = Outcome.COMMITTED, (began_ms, _now_ms())
        except Exception as error:  # noqa: BLE001  as above
            self.gave_up.append(f"unit {unit}, transaction: {error!r}")
            self._give_up(producer, transaction, error)

    def _give_up(self, producer: FaultedProducer, transaction: Transaction, error: Exception) -> None:
        """As an application should: abort, and where that fails begin with another producer, which fences this one."""
        if isinstance(error, GaveUpError):
            self._leave(True)  # the call goes on
            return
        try:
            producer.abort()
        except Exception as another:  # noqa: BLE001  as above
            self.gave_up.append(f"abort: {another!r}")
            self._leave(True)
        else:
            transaction.outcome = Outcome.ABORTED


class Round:
    """Clients, a broker, a schedule."""

    def __init__(self, schedule: Schedule, shape: Shape, broker: BrokerProcess, makes: dict[str, Open]) -> None:
        self.performance = Performance(schedule, broker)
        self._broker = broker
        bootstrap = broker.bootstrap_servers
        self.writers = {make: Writer(make, open_, self.performance, bootstrap) for make, open_ in makes.items()}
        self.readers = {make: Reader(make, bootstrap, [f"plain-{make}", f"paid-{make}"]) for make in makes if make in READERS}

    def run(self) -> list[str]:
        """Play it to its end; what is wrong."""
        self.performance.conduct(self._wait_for_work)
        deadline = time.monotonic() + TIMEOUT_S
        for writer in self.writers.values():
            writer.thread.join(max(deadline - time.monotonic(), 0))
        self.performance.end()
        complaints: list[str] = []
        self._log = self.performance.log()
        for make, writer in self.writers.items():
            if writer.thread.is_alive():
                complaints.append(f"{make} does not come to an end: it has done {writer.done} units")
            elif writer.failure is not None:
                complaints.append(f"{make}: {writer.failure!r}")
            else:
                writer.end_transactions()
                complaints += self._judge(make)
        for each in self.readers.values():
            each.stop()
        return complaints + [str(each) for each in self.performance.log() if any(name in NEVER for name in each.errors)]

    def summary(self) -> list[str]:
        """How much was shown."""
        log = self.performance.log()
        return [
            f"{len(log.of(injected=True))} of {len(log)} requests met a fault",
            *(each for writer in self.writers.values() for each in [writer.summary(), *writer.reasons()]),
        ]

    def told(self) -> str:
        """All that happened, for who must find out why."""
        parts = [str(self.performance.schedule), "done:", *self.performance.told, "clients gave up:"]
        parts += [f"  {make} {each}" for make, writer in self.writers.items() for each in writer.gave_up]
        parts += [f"  {each}" for reader in self.readers.values() for each in reader.failures]
        return "\n".join([*parts, "requests:", *map(str, self.performance.log())])

    def _wait_for_work(self, part: float) -> None:
        deadline = time.monotonic() + PATIENCE_S
        wanted = part * UNITS * len(self.writers)
        while time.monotonic() < deadline and sum(each.done for each in self.writers.values()) < wanted:
            time.sleep(0.01)

    def _judge(self, make: str) -> list[str]:
        writer = self.writers[make]
        visible: dict[Place, list[tuple[int, str]]] = {}
        for topic in (f"plain-{make}", f"paid-{make}"):
            for record in self._broker.records(topic):
                visible.setdefault(Place(topic, record.partition), []).append((record.offset, record.text))
        committed = None
        if make not in WITHOUT_OFFSETS:
            committed = transactional.KafkaPython().committed_offset(
                self._broker.bootstrap_servers, f"paid-{make}", Place(f"paid-{make}", 0)
            )
        unasked = [each for each in writer.model.transactions if not self._is_asked_for(make, each)]
        for each in unasked if make in COMMITS_UNASKED else ():
            writer.gave_up.append(f"committed without EndTxn: {each.records[0].value}")
            each.outcome = Outcome.UNKNOWN
        told = {place: self._without_resent(writer, place, found) for place, found in visible.items()} if make in SENDS_AGAIN else visible
        complaints = writer.model.complaints(told, committed)
        if make in self.readers:
            rows = {(place, *row) for place, found in visible.items() for row in found}
            complaints += self._judge_reader(make, rows)
        return complaints

    def _without_resent(self, writer: Writer, place: Place, rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Without the earlier one of two records that one producer sent in two epochs."""
        last = {value: offset for offset, value in rows}
        earlier = {offset: last[value] for offset, value in rows if offset != last[value]}
        if not earlier:
            return rows
        senders = self._senders(place)
        resent = {a for a, b in earlier.items() if senders[a][0] == senders[b][0] and senders[a][1] < senders[b][1]}
        writer.gave_up += [f"{value} was sent again in a later epoch" for offset, value in rows if offset in resent]
        return [row for row in rows if row[0] not in resent]

    def _senders(self, place: Place) -> dict[int, tuple[int, int]]:
        """By offset: producer id and epoch, as they are on the disk."""
        assert self._broker.data_dir is not None
        found: dict[int, tuple[int, int]] = {}
        for file in (self._broker.data_dir / f"{place.topic}-{place.partition}").glob("*.log"):
            for batch in split_batches(memoryview(file.read_bytes())):
                for offset in range(batch.base_offset, batch.last_offset + 1):
                    found[offset] = batch.producer_id, batch.producer_epoch
        return found

    def _is_asked_for(self, make: str, transaction: Transaction) -> bool:
        """Whether the client asked the broker for the commit that it told of."""
        first_ms, last_ms = transaction.commit_ms
        asked = self._log.of("EndTxn", transactional_id=transactional_id(make))
        return transaction.outcome is not Outcome.COMMITTED or any(first_ms - 1 <= each.time_ms <= last_ms + 1 for each in asked)

    def _judge_reader(self, make: str, rows: set[tuple[Place, int, str]]) -> list[str]:
        found = self.readers[make]
        self._wait_until_read(found, rows)
        if make in STANDS_STILL and not found.has(rows) and not self._asked_lately(reader(make)):
            found.begin_anew()
            self._wait_until_read(found, rows)
        found.stop()
        missing, wrong = rows - found.seen, found.seen - rows
        complaints = [f"{make}'s consumer did not read {sorted(missing)[:5]}: {found.stack}"] if missing else []
        return complaints + ([f"{make}'s consumer read what nobody may: {sorted(wrong)[:5]}"] if wrong else [])

    @staticmethod
    def _wait_until_read(found: Reader, rows: set[tuple[Place, int, str]]) -> None:
        deadline = time.monotonic() + READ_TIMEOUT_S
        while not found.has(rows) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _asked_lately(self, client_id: str) -> bool:
        """Whether a client asked for what it needs in the last seconds, or waits for it."""
        since_ms = _now_ms() - STILL_MS
        asked = [each for each in self.performance.log().of(client_id=client_id) if each.api not in IDLE]
        return any(each.time_ms >= since_ms or each.outcome == WAITING for each in asked)


@pytest.fixture
def makes() -> Iterator[dict[str, Open]]:
    """Of producers; Java's where there is one. Its program is told the brokers when the first one is opened."""
    with ExitStack() as stack:
        programs: dict[str, SpokenClient] = {}

        def java(bootstrap: str, transactional_id: str | None) -> FaultedProducer:
            if bootstrap not in programs:
                programs[bootstrap] = stack.enter_context(java_client("4.3.1", bootstrap))
            return Java(programs[bootstrap], transactional_id)

        found: dict[str, Open] = {"kafka-python": KafkaPython, "aiokafka": AIOKafka, "confluent-kafka": Confluent}
        if shutil.which("java") is not None:
            found["java"] = java
        yield found


def seeds() -> list[int]:
    """Of the rounds: what is asked for, new ones in a soak, and else one whose faults are known to be met by each client."""
    asked = os.environ.get("MINIBROKER_FAULT_SEED")
    if asked:
        return [int(asked)]
    return [secrets.randbelow(10**6) for _ in range(SOAK_ROUNDS)] if IS_SOAK else [USUAL_SEED]


@pytest.mark.java
@pytest.mark.parametrize("nodes", [1, 3])
def test_what_is_acknowledged_is_read_once_whatever_happens(nodes: int, makes: dict[str, Open], tmp_path: Path) -> None:
    for seed in seeds():
        topics = {f"{kind}-{make}": PARTITIONS for make in makes for kind in ("plain", "paid")}
        shape = Shape([*makes], topics, UNITS, nodes, is_killed=nodes == 1)
        with BrokerProcess(brokers=nodes, topics=topics, config=CONFIG, data_dir=TEMPORARY) as broker:
            played = Round(draw(seed, shape), shape, broker, makes)
            complaints = played.run()
            print(f"MINIBROKER_FAULT_SEED={seed}", *played.summary(), sep="\n")
            if complaints or IS_SOAK:
                (tmp_path / f"{seed}.txt").write_text(played.told())
            if complaints:
                pytest.fail("\n".join([*complaints, f"MINIBROKER_FAULT_SEED={seed}", played.told()]), pytrace=False)
            assert "Traceback" not in broker.output
