"""The commands as a user calls them, and the clusters that they speak to: ours, and Apache Kafka where there is Java."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from minibroker.cli.main import main
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Commands:
    """Runs `minibroker ...` in this process; `code` is what it must end with."""

    def __init__(self, bootstrap: str, *, before: tuple[str, ...] = ()) -> None:
        self.bootstrap = bootstrap
        self.before = before  #: words of every call

    def __call__(self, *arguments: str, stdin: str | bytes = "", code: int = 0) -> Ran:
        result = CliRunner(env={"MINIBROKER_BOOTSTRAP_SERVER": self.bootstrap}).invoke(main, [*self.before, *arguments], input=stdin)
        assert result.exit_code == code, f"{arguments} ended with {result.exit_code}: {result.output} {result.exception!r}"
        return Ran(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)


class Cluster(NamedTuple):
    kind: str
    bootstrap: str
    data_dir: Path


@pytest.fixture(scope="package", params=["minibroker", pytest.param("kafka", marks=pytest.mark.java)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of each kind."""
    folder = tmp_path_factory.mktemp(request.param)
    with KafkaProcess(folder) if request.param == "kafka" else BrokerProcess(folder) as broker:
        yield Cluster(request.param, broker.bootstrap, broker.data_dir)


@pytest.fixture
def cli(cluster: Cluster) -> Commands:
    """The commands, at the cluster."""
    return Commands(cluster.bootstrap)


@pytest.fixture
def offline() -> Commands:
    """The commands, where no broker listens."""
    return Commands("127.0.0.1:1")


def wait_until_complete(cli: Commands, transactional_id: str) -> dict[str, Any]:
    """Brokers may answer EndTxn before the markers are written, and Apache Kafka does; the transaction as it is then."""
    deadline = time.monotonic() + 60
    while True:
        (item,) = json.loads(cli("transactions", "describe", transactional_id, "-o", "json").out)
        if item["state"].startswith("Complete"):
            return dict(item)
        assert time.monotonic() < deadline, item


_numbers = itertools.count(1)


@pytest.fixture
def fresh(cli: Commands) -> Callable[..., str]:
    """Create a topic of a new name: `fresh(partitions=3, **{"retention.ms": "-1"})`; it keeps records of any age."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"cli-{os.getpid()}-{next(_numbers)}"
        settings = {"retention.ms": "-1", **configs}
        options = [option for key, value in settings.items() for option in ("--config", f"{key}={value}")]
        cli("topics", "create", name, "--partitions", str(partitions), *options)
        deadline = time.monotonic() + 60
        while name not in cli("topics", "list", "-o", "name").lines:  # Apache Kafka may answer before its broker has heard of it
            assert time.monotonic() < deadline, f"{name} is not listed"
        return name

    return create
