"""Features that minibroker finalizes are at the same levels in Apache Kafka, which opens the directory, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.cluster.metadata.features import default_levels
from minibroker.cluster.metadata.metadata_reader import FOLDER
from minibroker.cluster.metadata.quorum import QUORUM_STATE, write_quorum_state
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k57_update_features as k57
from minibroker.storage.files import RealFiles
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_metadata_log
from tests.support.kafka_process import KafkaProcess

ELIGIBLE, KRAFT = "eligible.leader.replicas.version", "kraft.version"
UPGRADE, SAFE = 1, 2
BROKER = 4
DYNAMIC_DEFAULT = 3


def update(bootstrap: str, name: str, level: int, upgrade_type: int) -> None:
    asked = k57.FeatureUpdate(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    with Client(bootstrap) as client:
        answer = client.ask(k57, k57.Request(feature_updates=[asked]))
    check(answer.error_code, f"{name} {level}: {answer.error_message}")


def finalized(bootstrap: str) -> dict[str, int]:
    with Client(bootstrap) as client:
        answer = client.ask(k18, k18.Request(client_software_name="test", client_software_version="1"))
    return {each.name: each.max_version_level for each in answer.finalized_features}


def minimum_in_sync(bootstrap: str) -> str | None:
    """What the metadata log has for all brokers."""
    resource = k32.Resource(resource_type=BROKER, resource_name="1", configuration_keys=["min.insync.replicas"])
    with Client(bootstrap) as client:
        answer = client.ask(k32, k32.Request(resources=[resource], include_synonyms=True))
    (config,) = answer.results[0].configs
    return next((each.value for each in config.synonyms if each.source == DYNAMIC_DEFAULT), None)


@pytest.mark.timeout(600)
def test_features_survive_moving_to_kafka_and_back(tmp_path: Path) -> None:
    """The log is begun with static voters, as by a Kafka older than 3.9; then they go into the log."""
    data_dir = tmp_path / "data"
    (data_dir / FOLDER).mkdir(parents=True)
    write_quorum_state(RealFiles(), str(data_dir / FOLDER / QUORUM_STATE), node_id=1, leader_epoch=1, data_version=0)
    levels = default_levels() | {KRAFT: 1}
    without = {name: level for name, level in levels.items() if name != ELIGIBLE}
    ours = ("--set", "node.id=1")
    with BrokerProcess(tmp_path, *ours) as broker:
        assert finalized(broker.bootstrap) == default_levels()
        update(broker.bootstrap, KRAFT, 1, UPGRADE)
        update(broker.bootstrap, ELIGIBLE, 0, SAFE)
        assert finalized(broker.bootstrap) == without
        assert broker.stop() == 0
    check_metadata_log(data_dir)

    (tmp_path / "kafka").mkdir()
    with KafkaProcess(tmp_path / "kafka", data_dir, static_voters=True) as kafka:
        assert finalized(kafka.bootstrap) == without
        assert minimum_in_sync(kafka.bootstrap) == "1"
        update(kafka.bootstrap, ELIGIBLE, 1, UPGRADE)
        kafka.stop()

    with BrokerProcess(tmp_path, *ours) as broker:
        assert "WARNING" not in broker.output, broker.output
        assert finalized(broker.bootstrap) == levels
        assert minimum_in_sync(broker.bootstrap) == "1"
        update(broker.bootstrap, ELIGIBLE, 0, SAFE)
        assert broker.stop() == 0
    check_metadata_log(data_dir)
