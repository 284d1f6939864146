"""ApiVersions: what is listed is served, and clients must have sensible names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minibroker.errors import InvalidRequest
from minibroker.schemas import k18_api_versions as schema
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory

NAMED = schema.Request(client_software_name="apache-kafka-java", client_software_version="4.3.1")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory()
    yield broker
    broker.cluster.close()


@pytest.mark.parametrize("version", range(schema.VERSIONS[0], schema.VERSIONS[1] + 1))
def test_every_version_lists_the_same_apis(broker: BrokerInMemory, version: int) -> None:
    response = broker.ask(NAMED, version)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert response.error_code == 0
    assert [ranges[key] for key in (0, 1, 2, 3, 18, 23)] == [(0, 13), (0, 18), (0, 11), (0, 13), (0, 4), (2, 4)]
    assert sorted(ranges) == [api.api_key for api in response.api_keys]


def by_name(feature: schema.FinalizedFeature | schema.SupportedFeature) -> str:
    """Kafka tells them in the order of a hash map."""
    return feature.name


@pytest.mark.parametrize("version", [3, 4])
def test_features_match_kafka(broker: BrokerInMemory, version: int) -> None:
    kafka = golden(f"k18_api_versions_v{version}_response_franz_go_1.22.2").decode()
    response = broker.ask(NAMED, version)
    for result, all_of_kafka in (
        (response.supported_features, kafka.supported_features),
        (response.finalized_features, kafka.finalized_features),
    ):
        assert sorted(result, key=by_name) == sorted(all_of_kafka, key=by_name)
    assert response.finalized_features_epoch == broker.cluster.metadata.last_offset


def test_older_cluster_reports_its_own_feature_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory()
    for levels in ({"metadata.version": 25, "transaction.version": 1, "group.version": 1}, {"metadata.version": 30}):
        monkeypatch.setattr(broker.cluster.image, "features", levels)
        results = {feature.name: (feature.min_version_level, feature.max_version_level) for feature in broker.ask(NAMED).finalized_features}
        assert results == {name: (level, level) for name, level in (levels | {"kraft.version": 1}).items()}


def test_client_software_is_stored(broker: BrokerInMemory) -> None:
    broker.ask(NAMED)
    assert (broker.connection.client_software_name, broker.connection.client_software_version) == ("apache-kafka-java", "4.3.1")


@pytest.mark.parametrize(("name", "version"), [("a b", "1"), ("", "1"), ("a", ""), ("-a", "1"), ("a.", "1"), ("a", "1\n"), ("é", "1")])
def test_invalid_client_software_names(broker: BrokerInMemory, name: str, version: str) -> None:
    for number in (3, 4):
        response = broker.ask(schema.Request(client_software_name=name, client_software_version=version), number)
        assert (response.error_code, response.api_keys) == (InvalidRequest.code, [])
    assert broker.ask(schema.Request(), 2).error_code == 0  # older versions carry no name
