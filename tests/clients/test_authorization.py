"""Authorization beside a running Apache Kafka: every API with the sets of the golden file, and random access control lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import NamedTuple

import pytest

from tests.dispatch.authorization.test_walk import GOLDEN, same
from tests.support.authorized_requests import CASES, Case
from tests.support.authorized_twins import SMALL, Kafka, Minibroker, Twin, begin_round, end_round, outcome, walk
from tests.support.kafka_process import KafkaProcess
from tests.support.kafka_users import kafka_with_users
from tests.support.soak import seed, times

#: answers depend on what earlier requests of other rounds did, not on access control alone
STATEFUL = ("ShareFetch", "ShareAcknowledge", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "ShareGroupHeartbeat")
OPERATIONS = ("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
ON_CLUSTER = (*OPERATIONS, "CLUSTER_ACTION", "IDEMPOTENT_WRITE")
RESOURCES = {
    "TOPIC": ("seen*", "s*", "secret", "seen", "*", "seen-none"),
    "GROUP": ("g", "g*", "h*", "*"),
    "TRANSACTIONAL_ID": ("x", "y*", "*"),
}

_ROUNDS = count(2000)
_FORGOTTEN = re.compile(r" groups\{group_id=[gh]-new-\w\}")  # whose members are gone after a while


class Walked(NamedTuple):
    """Both brokers after the same walk, so that they have the same groups."""

    ours: Twin
    kafka: Twin
    outcomes: dict[str, dict[str, list[str]]]  #: of Kafka


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    port, settings = kafka_with_users(["alice"])
    with KafkaProcess(tmp_path_factory.mktemp("kafka"), settings={**settings, **SMALL}):
        ours, kafka = Minibroker(), Kafka(port)
        walk(ours)
        yield Walked(ours, kafka, walk(kafka))


def test_golden_outcomes_match_kafka(walked: Walked) -> None:
    """So those of minibroker are as well, which tests/dispatch/authorization/test_walk.py compares with the file."""
    different = {case.name: walked.outcomes[case.name] for case in CASES if as_golden(walked.outcomes[case.name]) != GOLDEN[case.name]}
    assert different == {}


def as_golden(outcomes: dict[str, list[str]]) -> object:
    """Outcomes as the file has them."""
    return json.loads(json.dumps(outcomes))


def random_acls(random: Random) -> list[str]:
    """A few entries, some of which deny and some of which are for others."""
    lines = []
    for _ in range(random.randint(1, 8)):
        user = random.choice(["alice", "alice", "*", "bob"])
        denies = random.choice(["", "", "", " DENY"])
        if random.random() < 0.2:
            lines.append(f"{user}{denies} {random.choice(ON_CLUSTER)} CLUSTER kafka-cluster")
            continue
        kind, names = random.choice(list(RESOURCES.items()))
        lines.append(f"{user}{denies} {random.choice(OPERATIONS)} {kind} {random.choice(names)}")
    return lines


def test_random_acls_have_the_outcomes_of_kafka(walked: Walked) -> None:
    random = Random(seed())
    ours, kafka = walked.ours, walked.kafka
    cases = [case for case in CASES if not case.name.startswith(STATEFUL)]
    for _ in range(times(4, soak=60)):
        number, lines = next(_ROUNDS), random_acls(random)
        chosen = cases if number % 10 == 0 else random.sample(cases, 60)
        for twin in (ours, kafka):
            begin_round(twin, number, lines)
        failing = {case.name: each for case in chosen if (each := difference(case, ours, kafka, number))}
        for twin in (ours, kafka):
            end_round(twin)
        assert failing == {}, lines


def difference(case: Case, ours: Twin, kafka: Twin, number: int) -> tuple[str, str] | None:
    """Return the outcomes if they differ."""
    found = [_FORGOTTEN.sub("", outcome(twin, case, number)) for twin in (ours, kafka)]
    return None if same(case, {"": found[0]}, {"": found[1]}) else (found[0], found[1])
