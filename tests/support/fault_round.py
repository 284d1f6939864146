"""Clients of all makes at work on a broker while a schedule of faults is done to it, and what is wrong in the end.

Each make writes idempotently and in transactions, by turns; in between its transactional producer is fenced by another one, and goes on
all the same. Groups of the make read along. What must be there: tests/support/fault_model.py; what clients do wrong stands below.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from minibroker.client.client import Client
from minibroker.client.configs import SET, Change, alter_configs
from minibroker.client.group_offsets import CommittedOffset, committed_offsets
from minibroker.records.any_format import split_batches
from minibroker.testing import TEMPORARY, BrokerProcess
from minibroker.testing.request_log import NOT_ANSWERED, WAITING
from tests.clients.transactional import Place
from tests.support.fault_model import Model, Outcome, Sent, Transaction
from tests.support.fault_schedule import MODERN, PATIENCE_S, Faulted, Performance, Schedule, Shape, draw
from tests.support.faulted_producers import FaultedProducer, GaveUpError, Open, transactional_id
from tests.support.faulted_readers import Seen, group_of_readers, group_of_sharers
from tests.support.ports import free_ports
from tests.support.soak import times

UNITS: Final = times(5, soak=10)  #: of work of each make, in each of which it writes of no transaction and in one
FENCED_BEHIND: Final = 2  #: this unit
PARTITIONS: Final = 2
RECORDS: Final = 10  #: of each kind in a unit
TIMEOUT_S: Final = 150.0
#: Once its connection broke, librdkafka 2.16 finds the group's coordinator and then asks it for nothing, of Apache Kafka either.
WITHOUT_OFFSETS: Final = {"confluent-kafka"}
#: kafka-python 3.0.12 says of some transactions that they are committed without having sent EndTxn (as the request log shows): a record is
#: refused as out of order behind others that expired, InitProducerId raises the epoch, and with that commit_transaction() returns.
#: On Apache Kafka too, and so is the next one: test_faults_on_kafka.py.
COMMITS_UNASKED: Final = {"kafka-python"}
#: It also commits a transaction whose records it gave up (EndTxn without AddPartitionsToTxn): an application looks at each.
LOOKS_AT_RECORDS: Final = {"kafka-python"}
#: Seen (seeds 201, 211; why is not known): when connections were cut, a consumer of kafka-python 3.0.12 asked nothing for 44 s, and one of
#: librdkafka 2.16 sent heartbeats alone behind an OffsetFetch that was refused. Java's 4.3.1 of KIP-848 (seed 723 of three brokers) never
#: connected again to one that had cut a Fetch and a Metadata behind it, and read on from the others. An application would be started
#: again, so the reader is, once; where the client still asks for offsets, its group, or records that it lacks, it is the broker's fault.
STANDS_STILL: Final = {"kafka-python", "confluent-kafka", "java"}
IDLE: Final = {"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "Metadata", "ApiVersions", "FindCoordinator"}
FETCHING: Final = {"Fetch", "ShareFetch"}
#: Seen (seeds 302, 708) with librdkafka 2.16: a batch that may be in the log (its answer was lost, or REQUEST_TIMED_OUT), whose retry is
#: refused (UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS), counts as not written; when one behind it is out of order then, it comes again
#: in a new epoch with sequence 0, where no broker can know it. So we read the request logs: it was not played on Apache Kafka. Only
#: duplicates are passed whose batches on the disk show both epochs of one producer, in a topic where an answer was such or lost.
SENDS_AGAIN: Final = {"confluent-kafka"}
MAY_BE_THERE: Final = {"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
READ_TIMEOUT_S: Final = 60.0
STANDS_STILL_S: Final = 15.0  #: from then on a client that asks for nothing is one that will not
STILL_MS: Final = 5000
#: What a broker must answer to nothing here, whatever went wrong before
NEVER: Final = ("UNKNOWN_SERVER_ERROR", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID", "CORRUPT_MESSAGE", "INVALID_RECORD")


def topics_of(make: str) -> list[str]:
    """What a make writes to, of no transaction and in one, and reads."""
    return [f"plain-{make}", f"paid-{make}"]


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
        self.wrong: list[str] = []  #: what the client was told that nobody may be
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
                if unit == FENCED_BEHIND:
                    self._be_fenced(unit)
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
        topic = f"{'plain' if kind == 'plain' else 'paid'}-{self._make}"
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
            transaction.group, transaction.committed_offset = f"paid-{self._make}-{unit}", unit + 1
        self.model.transactions.append(transaction)
        is_aborted = self._chance.random() < 0.25
        try:
            producer.begin()
            for each in transaction.records:
                producer.send(each.place, each.value)
            if transaction.group is not None:
                producer.send_offset(transaction.group, Place(f"paid-{self._make}", 0), transaction.committed_offset)
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

    def _be_fenced(self, unit: int) -> None:
        """Another producer takes over, perhaps in the midst of a transaction: the one before must not commit any more."""
        zombie = self._producer(is_transactional=True)
        transaction = Transaction(Outcome.ABORTED, self._records(unit, "fenced"))
        self.model.transactions.append(transaction)
        first, last = transaction.records[: RECORDS // 2], transaction.records[RECORDS // 2 :]
        is_open = self._chance.random() < 0.5  # else it was idle, and nothing had to be aborted

        def begin() -> None:
            zombie.begin()
            for each in first:
                zombie.send(each.place, each.value)
            zombie.outcomes()

        if is_open:
            with suppress(Exception):
                begin()
        del self._producers[True]
        self._producer(is_transactional=True)
        try:
            if not is_open:
                begin()
            for each in last:
                zombie.send(each.place, each.value)
            zombie.commit()
        except Exception as error:  # noqa: BLE001  as above
            self.gave_up.append(f"unit {unit}, fenced: {error!r}")
        else:
            if self._make not in COMMITS_UNASKED:
                self.wrong.append(f"{self._make} was told that a transaction is committed whose producer was fenced: {unit}")
        with suppress(Exception):
            zombie.close()

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


class Reads(Protocol):
    """What reads along: faulted_readers.py, faulted_java_readers.py."""

    failures: list[str]
    stack: str
    seen: set[Seen]

    def has(self, wanted: Collection[Seen]) -> bool: ...

    def begin_anew(self) -> None: ...

    def stop(self) -> None: ...

    def complaints(self, committed: Mapping[Place, int]) -> list[str]: ...


Read = Callable[[str, Sequence[str]], Reads]  #: bootstrap servers, topics


class Clients(NamedTuple):
    """Of a make."""

    write: Open
    readers: Mapping[str, Read]  #: by client_id


class Round:
    """Clients, a broker, a schedule."""

    def __init__(self, schedule: Schedule, broker: Faulted, makes: Mapping[str, Clients]) -> None:
        self.performance = Performance(schedule, broker)
        self._broker = broker
        bootstrap = broker.bootstrap_servers
        self.writers = {make: Writer(make, clients.write, self.performance, bootstrap) for make, clients in makes.items()}
        self.readers = {
            make: {client_id: read(bootstrap, topics_of(make)) for client_id, read in clients.readers.items()}
            for make, clients in makes.items()
        }

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
                complaints += self._judge(make)
        for each in self._all_readers():
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
        parts += [f"  {each}" for found in self._all_readers() for each in found.failures]
        return "\n".join([*parts, "requests:", *map(str, self.performance.log())])

    def _all_readers(self) -> list[Reads]:
        return [each for found in self.readers.values() for each in found.values()]

    def _wait_for_work(self, part: float) -> None:
        deadline = time.monotonic() + PATIENCE_S
        wanted = part * UNITS * len(self.writers)
        while time.monotonic() < deadline and sum(each.done for each in self.writers.values()) < wanted:
            time.sleep(0.01)

    def _judge(self, make: str) -> list[str]:
        writer = self.writers[make]
        try:
            writer.end_transactions()
        except Exception as error:  # noqa: BLE001  makes have kinds of their own
            return [f"{make}: no producer can go on with {transactional_id(make)}: {error!r}", *writer.gave_up[-3:]]
        visible: dict[Place, list[tuple[int, str]]] = {}
        for topic in topics_of(make):
            for record in self._broker.records(topic):
                visible.setdefault(Place(topic, record.partition), []).append((record.offset, record.text))
        unasked = [each for each in writer.model.transactions if not self._is_asked_for(make, each)]
        for each in unasked if make in COMMITS_UNASKED else ():
            writer.gave_up.append(f"committed without EndTxn: {each.records[0].value}")
            each.outcome = Outcome.UNKNOWN
        told = {place: self._without_resent(writer, place, found) for place, found in visible.items()} if make in SENDS_AGAIN else visible
        complaints = writer.wrong + writer.model.complaints(told, self._offsets_of_transactions(writer.model))
        rows = {(place, *row) for place, found in visible.items() for row in found}
        for client_id, found in self.readers[make].items():
            complaints += [f"{client_id} {each}" for each in self._judge_reader(make, client_id, found, rows)]
        return complaints

    def _offsets_of_transactions(self, model: Model) -> dict[str, int]:
        groups = [each.group for each in model.transactions if each.group is not None]
        place = Place(f"paid-{model.make}", 0)
        return {group: offsets[place] for group, offsets in self._committed(groups).items() if place in offsets}

    def _committed(self, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
        """What groups committed."""
        with Client(self._broker.bootstrap_servers) as client:
            found = committed_offsets(client, groups) if groups else {}
        return {
            group: {Place(*where): each.offset for where, each in offsets.items() if isinstance(each, CommittedOffset)}
            for group, offsets in found.items()
            if not isinstance(offsets, Exception)
        }

    def _without_resent(self, writer: Writer, place: Place, rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Without the earlier one of two records that one producer sent in two epochs."""
        last = {value: offset for offset, value in rows}
        earlier = {offset: last[value] for offset, value in rows if offset != last[value]}
        if not earlier:
            return rows
        asked = self._log.of("Produce", topic=place.topic)
        if not any(each.outcome == NOT_ANSWERED or MAY_BE_THERE & {*each.errors} for each in asked):
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

    def _judge_reader(self, make: str, client_id: str, found: Reads, rows: set[Seen]) -> list[str]:
        self._wait_until_read(found, rows, STANDS_STILL_S)
        if make in STANDS_STILL and not found.has(rows) and not self._asked_lately(client_id, rows - found.seen):
            found.begin_anew()
        self._wait_until_read(found, rows, READ_TIMEOUT_S)
        found.stop()
        missing, wrong = rows - found.seen, found.seen - rows
        complaints = [f"did not read {sorted(missing)[:5]}: {found.stack}"] if missing else []
        complaints += [f"read what nobody may: {sorted(wrong)[:5]}"] if wrong else []
        group = group_of_readers(make)
        return complaints + found.complaints(self._committed([group]).get(group, {}))

    @staticmethod
    def _wait_until_read(found: Reads, rows: set[Seen], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not found.has(rows) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _asked_lately(self, client_id: str, missing: set[Seen]) -> bool:
        """Whether a client asked for what it needs in the last seconds, or waits for it: for what is missing, of those that lead it."""
        since_ms = _now_ms() - STILL_MS
        leaders = {self._broker._execute("leaders.describe", place._asdict())["leader"] for place in {place for place, _, _ in missing}}
        asked = [
            each
            for each in self.performance.log().of(client_id=client_id)
            if each.api not in IDLE and (each.api not in FETCHING or each.node in {None, *leaders})
        ]
        return any(each.time_ms >= since_ms or each.outcome == WAITING for each in asked)


class Played(NamedTuple):
    """What came of a round."""

    complaints: list[str]
    summary: list[str]
    told: str  #: all that happened


#: A broker on which groups come together at once, and what its members do not give back is soon taken from them.
CONFIG: Final = {
    "group.min.session.timeout.ms": 300,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 4000,
    "group.share.delivery.count.limit": 10,
}


def play(seed: int, nodes: int, makes: Mapping[str, Clients]) -> Played:
    """One round on a broker of its own; where it is alone it is killed now and then."""
    topics = {topic: PARTITIONS for make in makes for topic in topics_of(make)}
    shape = Shape([*makes], topics, UNITS, nodes, is_killed=nodes == 1)
    with BrokerProcess(brokers=nodes, topics=topics, config=CONFIG, data_dir=TEMPORARY, port=free_ports(nodes)) as broker:
        played = play_on(broker, draw(seed, shape), makes)
        if "Traceback" in broker.output:
            played.complaints.append(broker.output)
        return played


def play_on(broker: Faulted, schedule: Schedule, makes: Mapping[str, Clients]) -> Played:
    """On a broker that has the makes' topics, and nothing else."""
    _set_up_share_groups(broker.bootstrap_servers, makes)
    played = Round(schedule, broker, makes)
    return Played(played.run(), played.summary(), played.told())


def _set_up_share_groups(bootstrap: str, makes: Mapping[str, Clients]) -> None:
    """They read from the beginning, and what is committed alone."""
    configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    with Client(bootstrap) as client:
        for make in MODERN & {*makes}:
            alter_configs(client, "groups", group_of_sharers(make), [Change(name, SET, value) for name, value in configs.items()])
