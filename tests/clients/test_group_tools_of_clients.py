"""What clients bring along for groups: franz-go's transactions within a group, kadm's lag, Kafka's console consumer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.clients.group_members import (
    CLASSIC,
    CONSUMER,
    SHORT,
    SHORT_MS,
    TIMEOUT_S,
    Kind,
    Member,
    Programs,
    Writer,
    of,
    settings,
    until,
    values,
)
from tests.clients.transactional import READ_COMMITTED, ConfluentKafka, Place
from tests.conftest import NO_RETENTION
from tests.support import java
from tests.support.broker_process import BrokerProcess

PARTITIONS = 4
FRANZ_GO = [Kind("franz-go", CLASSIC, "cooperative-sticky"), Kind("franz-go", CONSUMER, "uniform")]


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the settings SHORT; a Kafka that is given must have them, too."""
    given = request.config.getoption("--bootstrap-server")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION, *settings(SHORT)) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0, broker.output


def copier(programs: Programs, kind: Kind, name: str, source: str, target: str) -> Member:
    """A GroupTransactSession under the transactional id `name`."""
    words = [f"protocol={kind.protocol}", f"assignor={kind.assignor}", "instance=", f"session_ms={SHORT_MS}"]
    programs["franz-go"].ask("copy", name, source, source, target, *words)
    return Member(programs["franz-go"], name)


@pytest.mark.parametrize("kind", FRANZ_GO, ids=str)
def test_copies_within_transactions_are_exact(kind: Kind, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """A second copier joins; it is killed and comes back under its transactional id; the first one leaves. Each value is there once."""
    source, target = new_topic(PARTITIONS), new_topic(1)
    writer = Writer(bootstrap)
    with Programs(bootstrap) as living, Programs(bootstrap) as mortal:
        written = writer.write(source, each=50)
        one = copier(living, kind, f"{source}-1", source, target)
        until(lambda: bool(one.read), one)
        two = copier(mortal, kind, f"{source}-2", source, target)
        until(lambda: bool(two.owned), two)
        written += writer.write(source, each=50)
        until(lambda: bool(two.read), two)
        mortal.kill()
        written += writer.write(source, each=50)
        two = copier(mortal, kind, f"{source}-2", source, target)
        until(lambda: bool(two.owned), two)
        one.leave()
        written += writer.write(source, each=50)
        assert copied(bootstrap, target, written) == written
        two.leave()


def copied(bootstrap: str, target: str, expected: Counter[str]) -> Counter[str]:
    """What readers of committed data find, as soon as there is so much."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        rows = ConfluentKafka().read(bootstrap, READ_COMMITTED, {Place(target, 0): 0})[Place(target, 0)]
        if len(rows) >= expected.total() or time.monotonic() > deadline:
            return Counter(row.value.decode() for row in rows)


def test_lag_as_kadm_counts_it(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Of a classic group: kadm 1.19 does not ask for others by their name, and Apache Kafka knows none, either."""
    topic = new_topic(2)
    writer = Writer(bootstrap)
    with Programs(bootstrap) as programs:
        member = programs.join(FRANZ_GO[0], topic, topic)
        written = writer.write(topic, 2)
        until(lambda: values(member) == written, member)
        member.commit()
        writer.write(topic, 2, each=5)
        state, *partitions = programs["franz-go"].ask("lag", topic)
        assert state == "Stable\tcooperative-sticky\t1"
        assert partitions == [f"{topic}\t{partition}\t3\t8\t5\tfranz-go" for partition in range(2)]
        member.leave()


def test_console_consumer_resumes_after_the_other_protocol(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    writer = Writer(bootstrap)
    for protocol in (CLASSIC, CONSUMER):
        written = writer.write(topic, 1)
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--from-beginning", "--timeout-ms", "30000"]
        words += ["--max-messages", "3", "--command-property", f"group.protocol={protocol}"]
        assert Counter(java.run_tool(java.CONSOLE_CONSUMER, *words).split()) == written


@pytest.mark.parametrize("make", ["kafka-python", "aiokafka", "franz-go", "sarama", "kafkajs"])
def test_an_administrator_of_each_make(make: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """What it sees of a group and does to it (Java's and librdkafka's: in other tests). aiokafka's only sees, sarama's sets no offsets."""
    topic = new_topic(2)
    writer = Writer(bootstrap)
    with Programs(bootstrap) as programs:
        member = programs.join(of(make), topic, topic)
        written = writer.write(topic, 2)
        until(lambda: values(member) == written, member)
        member.commit()
        assert sorted(programs[make].ask("sees", topic)) == sorted(["Stable\t1", f"{topic}\t0\t3", f"{topic}\t1\t3"])
        member.leave()
        at = 3
        if make not in {"aiokafka", "sarama"}:
            at = 1
            programs[make].ask("set", topic, topic, 0, at)
        assert sorted(programs[make].ask("sees", topic)) == sorted(["Empty\t0", f"{topic}\t0\t{at}", f"{topic}\t1\t3"])
        if make != "aiokafka":
            programs[make].ask("delete", topic)
            assert programs[make].ask("sees", topic) == []
