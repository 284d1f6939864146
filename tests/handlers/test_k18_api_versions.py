"""ApiVersions: what is listed is served, and clients must have sensible names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minibroker.errors import InvalidRequest
from minibroker.schemas import k18_api_versions as schema
from tests.support.broker_in_memory import BrokerInMemory

NAMED = schema.Request(client_software_name="apache-kafka-java", client_software_version="4.3.1")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory()
    yield broker
    broker.cluster.close()


@pytest.mark.parametrize("version", range(schema.VERSIONS[0], schema.VERSIONS[1] + 1))
def test_every_version_lists_the_same(broker: BrokerInMemory, version: int) -> None:
    response = broker.ask(NAMED, version)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert response.error_code == 0
    assert [ranges[key] for key in (0, 1, 2, 3, 18, 23)] == [(0, 13), (0, 18), (0, 11), (0, 13), (0, 4), (2, 4)]
    assert sorted(ranges) == [api.api_key for api in response.api_keys]


def test_only_features_whose_apis_are_served(broker: BrokerInMemory) -> None:
    response = broker.ask(NAMED)
    assert [feature.name for feature in response.supported_features] == ["metadata.version"]
    assert [(feature.name, feature.max_version_level) for feature in response.finalized_features] == [("metadata.version", 30)]
    assert response.finalized_features_epoch == broker.cluster.metadata_offset


def test_the_client_s_software_is_remembered(broker: BrokerInMemory) -> None:
    broker.ask(NAMED)
    assert (broker.connection.client_software_name, broker.connection.client_software_version) == ("apache-kafka-java", "4.3.1")


@pytest.mark.parametrize(("name", "version"), [("a b", "1"), ("", "1"), ("a", ""), ("-a", "1"), ("a.", "1"), ("a", "1\n"), ("é", "1")])
def test_names_that_are_none(broker: BrokerInMemory, name: str, version: str) -> None:
    for number in (3, 4):
        response = broker.ask(schema.Request(client_software_name=name, client_software_version=version), number)
        assert (response.error_code, response.api_keys) == (InvalidRequest.code, [])
    assert broker.ask(schema.Request(), 2).error_code == 0  # older versions carry no name
