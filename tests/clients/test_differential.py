"""The same random requests to us and to Apache Kafka 4.3.1: every answer is the same, but for what tests/differential/allowed.py names.

The seed is printed; MINIBROKER_TEST_SEED runs another one, MINIBROKER_SOAK=1 more requests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.differential.allowed import RULES
from tests.differential.log_run import RETENTION, SETTINGS, LogRun
from tests.differential.run import Run
from tests.differential.transactions import SETTINGS as TRANSACTION_SETTINGS
from tests.differential.transactions import TransactionRun
from tests.differential.twins import Twins
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess
from tests.support.soak import times

pytestmark = [pytest.mark.java]

OPERATIONS = times(600, soak=1600)
LOG_OPERATIONS = times(800, soak=2400)
TRANSACTION_OPERATIONS = {2: times(1000, soak=2500), 1: times(800, soak=1200)}  #: by transaction.version
#: Two brokers do not look for old segments at the same moment, the first time after 30 s: a slow machine takes longer for the requests.
NO_RETENTION = {"log.initial.task.delay.ms": "100000000"}
#: With `minibroker.like.kafka`, the rules of differences that it turns off must not be needed.
MODES = pytest.mark.parametrize("like_kafka", [False, True], ids=["as-usual", "like-kafka"])


def mode_of(like_kafka: bool) -> list[str]:
    return ["--like-kafka"] if like_kafka else []


@pytest.mark.timeout(600)
@MODES
def test_two_brokers_answer_alike(tmp_path: Path, *, like_kafka: bool) -> None:
    seed = int(os.environ.get("MINIBROKER_TEST_SEED", "20261121"))
    print(f"MINIBROKER_TEST_SEED={seed}")
    (tmp_path / "ours").mkdir()
    (tmp_path / "kafka").mkdir()
    settings = [word for name, value in NO_RETENTION.items() for word in ("--set", f"{name}={value}")]
    with (
        KafkaProcess(tmp_path / "kafka", settings=NO_RETENTION) as kafka,
        BrokerProcess(tmp_path / "ours", "--set", "node.id=1", *mode_of(like_kafka), *settings) as ours,
    ):
        run = Run(Twins(ours.bootstrap, kafka.bootstrap), seed, like_kafka=like_kafka)
        run.run(OPERATIONS)
        assert run.found == [], f"{len(run.found)} of {run.counts.total()} answers differ:\n" + "\n".join(run.found[:20])
        assert len(run.counts) == 16, run.counts
        assert ours.stop() == 0
        assert "Traceback" not in ours.output


@pytest.mark.timeout(600)
@MODES
def test_two_logs_are_alike(tmp_path: Path, *, like_kafka: bool) -> None:
    """Small segments, timestamps of every kind, records deleted anywhere, both brokers restarted, once in order and once by SIGKILL."""
    seed = int(os.environ.get("MINIBROKER_TEST_SEED", "20261121"))
    print(f"MINIBROKER_TEST_SEED={seed}")
    (tmp_path / "ours").mkdir()
    (tmp_path / "kafka").mkdir()
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with (
        KafkaProcess(tmp_path / "kafka", settings=SETTINGS) as kafka,
        BrokerProcess(tmp_path / "ours", "--set", "node.id=1", *mode_of(like_kafka), *settings) as ours,
    ):
        run = LogRun(Twins(ours.bootstrap, kafka.bootstrap), seed, (ours, kafka), like_kafka=like_kafka)
        run.run(LOG_OPERATIONS)
        assert min(run.retired[name] for name in RETENTION) > 3, run.retired
        assert run.found == [], f"{len(run.found)} of {run.counts.total()} answers differ:\n" + "\n".join(run.found[:20])
        assert "Traceback" not in ours.output


@pytest.mark.timeout(600)
@pytest.mark.parametrize("transaction_version", TRANSACTION_OPERATIONS)
@MODES
def test_two_coordinators_are_alike(tmp_path: Path, transaction_version: int, *, like_kafka: bool) -> None:
    """Transactions and committed offsets: producers of every version, zombies, time-outs, markers of an operator."""
    seed = int(os.environ.get("MINIBROKER_TEST_SEED", "20261121"))
    print(f"MINIBROKER_TEST_SEED={seed}")
    (tmp_path / "ours").mkdir()
    (tmp_path / "kafka").mkdir()
    feature = f"transaction.version={transaction_version}"
    format_it = ["-m", "minibroker", "storage", "format", str(tmp_path / "ours" / "data"), "--feature", feature]
    subprocess.run([sys.executable, *format_it], check=True, capture_output=True)
    settings = [word for name, value in TRANSACTION_SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with (
        KafkaProcess(tmp_path / "kafka", settings=TRANSACTION_SETTINGS, features={"transaction.version": transaction_version}) as kafka,
        BrokerProcess(tmp_path / "ours", "--set", "node.id=1", *mode_of(like_kafka), *settings) as ours,
    ):
        run = TransactionRun(Twins(ours.bootstrap, kafka.bootstrap), seed, like_kafka=like_kafka)
        run.run(TRANSACTION_OPERATIONS[transaction_version])
        assert run.found == [], f"{len(run.found)} of {run.counts.total()} answers differ:\n" + "\n".join(run.found[:20])
        assert len(run.counts) == 16, run.counts
        assert "Traceback" not in ours.output


def test_every_allowance_has_a_reason() -> None:
    assert all(len(rule.reason) > 20 and rule.api_keys for rule in RULES)
