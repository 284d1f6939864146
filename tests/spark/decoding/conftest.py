"""A broker with a registry for the tests of a module, and Confluent's client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.support.broker_process import BrokerProcess
from tests.support.registry_process import registry_process


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with registry_process(tmp_path_factory.mktemp("decoding")) as served:
        yield served


@pytest.fixture(scope="module")
def broker(served: tuple[BrokerProcess, str]) -> BrokerProcess:
    return served[0]


@pytest.fixture(scope="module")
def url(served: tuple[BrokerProcess, str]) -> str:
    return served[1]


@pytest.fixture(scope="module")
def confluent(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})
