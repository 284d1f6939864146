"""Retention beside Apache Kafka 4.3.1: random logs and random limits, and the same segments are left.

The seed is printed; MINIBROKER_TEST_SEED runs another one.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from minibroker.records.batch import NO_TIMESTAMP
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k02_list_offsets, k19_create_topics, k21_delete_records, k44_incremental_alter_configs
from tests.differential.log_run import NAMES_IN_KAFKA, SEGMENT_BYTES, segments
from tests.differential.twins import KAFKAS, OURS, SIDES, Twins
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

TOPICS: Final = 60
HOUR_MS: Final = 3_600_000
#: A purge empties Kafka's log some seconds later; nothing else may go in so much more time.
QUIET_S: Final = 1.5
SETTINGS: Final = {
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.compaction.lag.ms": str(1000 * HOUR_MS),
}


class Case(NamedTuple):
    """One topic: what is produced, batch by batch, where its records are deleted up to, and the limits it then gets."""

    name: str
    configs: dict[str, str]
    batches: list[bytes]
    delete_to: int
    limits: dict[str, str]


def draw_case(rng: random.Random, number: int, now_ms: int) -> Case:
    """Timestamps lie on half hours and limits on whole ones: no second of the test's own time matters."""
    configs = {SEGMENT_BYTES: rng.choice(["400", "500", "2000", "1000000"]), "index.interval.bytes": rng.choice(["0", "4096"])}
    batches = []
    age_ms = rng.randrange(1, 20) * HOUR_MS + HOUR_MS // 2
    for _ in range(rng.choice([0, 1, 2, 10, 30])):
        kind = rng.random()
        if kind < 0.1:
            times = [NO_TIMESTAMP]
        elif kind < 0.2:
            times = [now_ms + HOUR_MS // 2]
        else:
            age_ms = max(age_ms + rng.choice([0, 0, -HOUR_MS, -HOUR_MS, 2 * HOUR_MS]), HOUR_MS // 2)
            times = [now_ms - age_ms] * rng.choice([1, 3])
        records = [Record(index, time, b"key", b"x" * rng.choice([0, 20, 90])) for index, time in enumerate(times)]
        batches.append(bytes(build_batch(records)))
    total = sum(map(len, batches))
    limits = rng.choice(
        [
            {"retention.ms": str(rng.randrange(1, 15) * HOUR_MS)},
            {"retention.ms": "1"},
            {"retention.bytes": str(rng.choice([0, 1, rng.randrange(total + 100)]))},
            {"retention.ms": str(rng.randrange(1, 15) * HOUR_MS), "retention.bytes": str(rng.randrange(total + 100))},
        ]
    )
    policy = rng.choice(["delete", "delete", "delete", "compact,delete", "compact"])
    if policy != "delete":
        configs["cleanup.policy"] = policy
    delete_to = rng.choice([0, 0, rng.randrange(max(len(batches), 1))]) if policy != "compact" else 0
    return Case(f"topic{number}", configs, batches, delete_to, limits)


class Brokers:
    """Asks both the same."""

    def __init__(self, twins: Twins, folders: tuple[Path, Path]) -> None:
        self.twins = twins
        self.folders = folders

    def ask(self, schema: Any, version: int, request: Any) -> tuple[Any, Any]:
        return self.twins.ask(schema, version, request if callable(request) else lambda _: request)

    def create(self, case: Case) -> None:
        def make(side: int) -> k19_create_topics.Request:
            configs = {NAMES_IN_KAFKA.get(key, key) if side == KAFKAS else key: value for key, value in case.configs.items()}
            given = [k19_create_topics.Config(name=key, value=value) for key, value in configs.items()]
            topic = k19_create_topics.Topic(name=case.name, num_partitions=1, replication_factor=1, assignments=[], configs=given)
            return k19_create_topics.Request(topics=[topic])

        for answer in self.ask(k19_create_topics, 4, make):
            assert answer.topics[0].error_code == 0, answer

    def produce(self, case: Case) -> None:
        for data in case.batches:
            partition = k00_produce.Partition(index=0, records=memoryview(bytearray(data)))
            topics = [k00_produce.Topic(name=case.name, partition_data=[partition])]
            request = k00_produce.Request(transactional_id=None, acks=-1, timeout_ms=5000, topic_data=topics)
            for answer in self.ask(k00_produce, 9, request):
                assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def delete_records(self, case: Case) -> None:
        if case.delete_to == 0:
            return
        partition = k21_delete_records.Partition(partition_index=0, offset=case.delete_to)
        topics = [k21_delete_records.Topic(name=case.name, partitions=[partition])]
        for answer in self.ask(k21_delete_records, 2, k21_delete_records.Request(topics=topics, timeout_ms=5000)):
            assert answer.topics[0].partitions[0].error_code == 0, answer

    def limit(self, case: Case) -> None:
        schema = k44_incremental_alter_configs
        configs = [schema.Config(name=name, config_operation=0, value=value) for name, value in case.limits.items()]
        resource = schema.Resource(resource_type=2, resource_name=case.name, configs=configs)
        for answer in self.ask(schema, 1, schema.Request(resources=[resource], validate_only=False)):
            assert answer.responses[0].error_code == 0, answer

    def is_led(self, case: Case) -> bool:
        return all(start >= 0 for start in self.starts(case))

    def starts(self, case: Case) -> tuple[int, int]:
        """Log start of each side; -1 while it has no leader."""
        partition = k02_list_offsets.Partition(partition_index=0, timestamp=-2)
        topics = [k02_list_offsets.Topic(name=case.name, partitions=[partition])]
        answers = self.ask(k02_list_offsets, 5, k02_list_offsets.Request(replica_id=-1, topics=topics))
        ours, kafkas = (answer.topics[0].partitions[0].offset for answer in answers)
        return ours, kafkas

    def left(self, case: Case) -> tuple[Any, Any]:
        """Log start and segments (base offset and size) of each side."""
        ours, kafkas = ((start, segments(folder / f"{case.name}-0")) for start, folder in zip(self.starts(case), self.folders, strict=True))
        return ours, kafkas


@pytest.mark.timeout(600)
def test_the_same_segments_are_left(tmp_path: Path) -> None:
    seed = int(os.environ.get("MINIBROKER_TEST_SEED", "20261121"))
    print(f"MINIBROKER_TEST_SEED={seed}")
    rng = random.Random(seed)
    (tmp_path / "ours").mkdir()
    (tmp_path / "kafka").mkdir()
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with (
        KafkaProcess(tmp_path / "kafka", settings=SETTINGS) as kafka,
        BrokerProcess(tmp_path / "ours", "--set", "node.id=1", *settings) as ours,
    ):
        both = Brokers(Twins(ours.bootstrap, kafka.bootstrap), (ours.data_dir, kafka.data_dir))
        cases = [draw_case(rng, number, int(time.time() * 1000)) for number in range(TOPICS)]
        for case in cases:
            both.create(case)
        for case in cases:
            wait_until(lambda case=case: both.is_led(case), lambda: "a leader")  # type: ignore[misc]
            both.produce(case)
            both.delete_records(case)
        for case in cases:
            both.limit(case)
        compare(both, cases)
        assert sum(both.starts(case)[OURS] > case.delete_to for case in cases) > TOPICS // 10  # retention had something to do
        for broker in (ours, kafka):
            broker.stop()
            broker.start()
        for side in SIDES:
            both.twins.peers[side].close()
        for case in cases:
            wait_until(lambda case=case: both.is_led(case), lambda: "a leader after the restart")  # type: ignore[misc]
        compare(both, cases)
        assert "Traceback" not in ours.output


def compare(both: Brokers, cases: list[Case]) -> None:
    """Within some time both have the same, and then nothing more goes."""
    for case in cases:
        wait_until(lambda case=case: same(both, case), lambda case=case: f"{case}: {both.left(case)}")  # type: ignore[misc]
    time.sleep(QUIET_S)  # that nothing happens has no event to wait for
    for case in cases:
        ours, kafkas = both.left(case)
        assert ours == kafkas, case


def same(both: Brokers, case: Case) -> bool:
    try:
        ours, kafkas = both.left(case)
    except FileNotFoundError:  # deleted between the listing and the look
        return False
    return bool(ours == kafkas)
