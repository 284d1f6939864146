"""Levels of loggers by DescribeConfigs and IncrementalAlterConfigs; codes and messages as Apache Kafka 4.3.1 gave them (raw frames)."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from minibroker.cluster.configs.broker_loggers import LAZY_PACKAGES
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.support.broker_in_memory import BrokerInMemory

LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = range(4)
OURS = "minibroker.dispatch.dispatcher"
NO_LEVEL = "as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.fixture(autouse=True)
def _levels_as_they_were() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger(OURS), logging.getLogger("minibroker")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def describe(broker: BrokerInMemory, name: str = "1") -> k32.Result:
    resource = k32.Resource(resource_type=LOGGER, resource_name=name, configuration_keys=None)
    result: k32.Result = broker.ask(k32.Request(resources=[resource], include_synonyms=True, include_documentation=True)).results[0]
    return result


def levels(broker: BrokerInMemory) -> dict[str, str | None]:
    return {each.name: each.value for each in describe(broker).configs}


def alter(
    broker: BrokerInMemory, *changes: tuple[str, int, str | None], name: str = "1", validate_only: bool = False
) -> tuple[int, str | None]:
    configs = [k44.Config(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = k44.Resource(resource_type=LOGGER, resource_name=name, configs=configs)
    answer = broker.ask(k44.Request(resources=[resource], validate_only=validate_only)).responses[0]
    return answer.error_code, answer.error_message


def test_log_level_is_changed_and_reset() -> None:
    broker = BrokerInMemory()
    logger = logging.getLogger(OURS)
    before = levels(broker)[OURS]
    assert alter(broker, (OURS, SET, "DEBUG"), validate_only=True) == (0, None)
    assert levels(broker)[OURS] == before
    for word, level in (("TRACE", 5), ("DEBUG", logging.DEBUG), ("WARN", logging.WARNING), ("FATAL", logging.CRITICAL)):
        assert alter(broker, (OURS, SET, word)) == (0, None)
        assert (levels(broker)[OURS], logger.getEffectiveLevel()) == (word, level)
    assert alter(broker, (OURS, DELETE, None), ("minibroker", SET, "ERROR")) == (0, None)
    assert levels(broker)[OURS] == "ERROR"
    assert alter(broker, ("root", SET, "INFO")) == (0, None)
    assert logging.getLogger().level == logging.INFO


def test_described_as_apache_kafka_does() -> None:
    first = describe(BrokerInMemory()).configs[0]
    assert (first.name, first.config_source, first.config_type, first.read_only, first.is_sensitive) == ("root", 6, 0, False, False)
    assert (first.synonyms, first.documentation) == ([], "")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("", (42, "Broker id must not be empty")),
        ("2", (42, "Unexpected broker id, expected 1 but received 2")),
        ("x", (42, "Broker id must be an integer, but it is: x")),
    ],
)
def test_loggers_of_another_broker(name: str, answer: tuple[int, str]) -> None:
    result = describe(BrokerInMemory(), name)
    assert (result.error_code, result.error_message, result.configs) == (*answer, [])


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (("root", SET, "info"), (40, f"Cannot set the log level of root to info {NO_LEVEL}")),
        (("root", SET, ""), (40, f"Cannot set the log level of root to  {NO_LEVEL}")),
        (("root", SET, "OFF"), (40, f"Cannot set the log level of root to OFF {NO_LEVEL}")),
        (("foo.bar", SET, "INFO"), (40, "Logger foo.bar does not exist!")),
        (("foo.bar", DELETE, None), (40, "Logger foo.bar does not exist!")),
        (("root", DELETE, None), (42, "Removing the log level of the root logger is not allowed")),
        (("root", APPEND, "INFO"), (42, "APPEND operation is not allowed for the BROKER_LOGGER resource")),
        (("root", SUBTRACT, "INFO"), (42, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource")),
        (("root", SET, None), (42, "Null value not supported for : root")),
    ],
)
def test_invalid_changes_are_refused(change: tuple[str, int, str | None], answer: tuple[int, str]) -> None:
    broker = BrokerInMemory()
    before = levels(broker)
    assert alter(broker, (OURS, SET, "TRACE"), change) == answer
    assert levels(broker) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Node id must be an integer, but it is: "),
        ("2", "Unexpected node id. Expected 1, but received 2"),
        ("x", "Node id must be an integer, but it is: x"),
    ],
)
def test_only_this_broker_has_loggers(name: str, message: str) -> None:
    assert alter(BrokerInMemory(), ("root", SET, "INFO"), name=name) == (42, message)


def test_alter_configs_does_not_support_loggers() -> None:
    resource = k33.Resource(resource_type=LOGGER, resource_name="1", configs=[k33.Config(name="root", value="INFO")])
    answer = BrokerInMemory().ask(k33.Request(resources=[resource], validate_only=False)).responses[0]
    assert (answer.error_code, answer.error_message) == (42, "Unknown resource type 8")


def test_loggers_of_lazily_imported_packages_are_listed() -> None:
    program = "import sys; from minibroker.cluster.configs import broker_loggers as b; print(*b.levels()); print(*sys.modules)"
    loggers, loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()
    assert set(LAZY_PACKAGES) <= set(loggers.split())
    assert not set(LAZY_PACKAGES) & set(loaded.split())
    assert all(importlib.util.find_spec(room) for room in LAZY_PACKAGES)
