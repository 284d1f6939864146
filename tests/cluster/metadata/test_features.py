"""Features: what a new metadata log begins with, what an older one keeps, what is refused."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.metadata.features import SERVED, check_levels, default_levels
from minibroker.cluster.metadata.frame import MetadataOperation
from minibroker.cluster.metadata.metadata_log import MetadataLog
from minibroker.cluster.metadata.metadata_reader import FOLDER
from minibroker.errors import ConfigurationError
from minibroker.schemas.internal.setting_records import FeatureLevelRecord
from minibroker.storage.files import RealFiles
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory


def begun_with(folder: Path, **levels: int) -> BrokerInMemory:
    log = MetadataLog(RealFiles(), str(folder / FOLDER), node_id=1, directory_id=UUID(int=77), clock=ManualClock())
    list(log.replay())
    log.append_all(
        [MetadataOperation([FeatureLevelRecord(name=name.replace("_", "."), feature_level=level) for name, level in levels.items()])]
    )
    log.close()
    return BrokerInMemory(folder=folder)


@pytest.mark.parametrize("clean", [True, False])
def test_new_log_has_the_feature_levels_of_a_new_kafka(clean: bool) -> None:
    kafka = golden("k18_api_versions_v4_response_java_4.3.1").decode()
    levels = {feature.name: feature.max_version_level for feature in kafka.finalized_features}
    broker = BrokerInMemory()
    for _ in range(2):
        assert broker.cluster.features == levels
        assert list(broker.cluster.image.features) == ["metadata.version", *sorted(levels.keys() - {"metadata.version", "kraft.version"})]
        assert broker.cluster.transaction_version == 2
        broker = broker.restart(clean=clean)


def test_supported_features_match_kafka() -> None:
    kafka = golden("k18_api_versions_v4_response_java_4.3.1").decode()
    ranges = {feature.name: (feature.min_version, feature.max_version) for feature in kafka.supported_features}
    assert {name: tuple(levels) for name, levels in SERVED.items()} == ranges


@pytest.mark.parametrize(("levels", "found"), [({}, 0), ({"transaction_version": 1}, 1)])
def test_older_log_keeps_its_feature_levels(levels: dict[str, int], found: int, tmp_path: Path) -> None:
    broker = begun_with(tmp_path, metadata_version=30, **levels)
    assert broker.cluster.transaction_version == broker.restart().cluster.transaction_version == found


def test_unknown_feature_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"transaction\.version 3: 0 to 2 can be served"):
        begun_with(tmp_path, metadata_version=30, transaction_version=3)
    with pytest.raises(ConfigurationError, match=r"eligible\.leader\.replicas\.version 7: 0 to 1 can be served"):
        check_levels({"metadata.version": 30, "eligible.leader.replicas.version": 7})
    check_levels({"metadata.version": 30, "feature.to.come": 7})  # of no meaning here


def test_feature_defaults_of_an_older_metadata_version() -> None:
    """As Kafka's formatter: eligible leader replicas came with 4.1-IV0, group.version with 4.0-IV0, transaction.version 2 with 4.0-IV2."""
    assert default_levels(26) == default_levels(24) | {"metadata.version": 26, "eligible.leader.replicas.version": 1}
    assert default_levels(25) == default_levels(24) | {"metadata.version": 25}
    assert default_levels(24) == {"metadata.version": 24, "transaction.version": 2, "group.version": 1}
    assert default_levels(23) == {"metadata.version": 23, "group.version": 1}
    assert default_levels(21) == {"metadata.version": 21}
