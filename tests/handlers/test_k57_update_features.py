"""UpdateFeatures: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minibroker.cluster.metadata.features import default_levels
from minibroker.cluster.metadata.frame import decode_frame
from minibroker.cluster.metadata.metadata_reader import FOLDER
from minibroker.cluster.metadata.quorum import QUORUM_STATE, write_quorum_state
from minibroker.errors import KafkaStorageError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.control import ControlType, control_key
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k57_update_features as schema
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord
from minibroker.storage.files import RealFiles
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import kafka_answers, kafka_like, serve
from tests.support.transactional_ids import TOPIC, init_producer

STEM = "k57_update_features"
#: but franz-go's of a feature that nobody knows: Kafka's answer was neither its longest nor its shortest, and was not kept; Java's was
REQUESTS = sorted(
    name
    for name, frame in all_golden().items()
    if frame.stem == STEM and frame.direction == "request" and not name.endswith("franz_go_1.22.2_groups_small")
)
METADATA, TRANSACTION = "metadata.version", "transaction.version"
NOT_SERVED = "feature.to.come"
ELIGIBLE, KRAFT = "eligible.leader.replicas.version", "kraft.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "
NO_TYPE = "The controller does not support the given upgrade type."
NO_DOWNGRADE = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
REFUSING = "Refusing to perform the requested downgrade because it might delete metadata information."
UNSAFE_NOT = "Unsafe metadata downgrade is not supported in this version."
ONLY_METADATA, ONLY_TRANSACTION = "Local controller 1 only supports versions 7-30", "Local controller 1 only supports versions 0-2"
ONLY_0_AND_1 = "Local controller 1 only supports versions 0-1"
Asked = tuple[str, int, int]  #: feature, level, upgrade type


def ask(broker: BrokerInMemory, *updates: Asked, version: int = 2, validate_only: bool = False) -> tuple[int, str | None]:
    """Code and message; the results are those of the version."""
    requests = [schema.FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    answer = broker.ask(schema.Request(feature_updates=requests, validate_only=validate_only), version)
    results = [(name, 0, "NONE") for name, _, _ in updates] if version < 2 and answer.error_code == 0 else []
    assert [(each.feature, each.error_code, each.error_message) for each in answer.results] == results
    return answer.error_code, answer.error_message


def finalized(broker: BrokerInMemory) -> dict[str, int]:
    answer = broker.ask(k18.Request(client_software_name="a", client_software_version="1"))
    return {each.name: each.max_version_level for each in answer.finalized_features}


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    assert serve(kafka_like(), golden(name)) in kafka_answers(golden(name))


@pytest.mark.parametrize("name", [f"{STEM}_v{version}_response_franz_go_1.22.2_groups_small" for version in (0, 1, 2)])
def test_success_matches_kafka_bytes(name: str) -> None:
    response = golden(name)
    updates = [schema.FeatureUpdate(feature=TRANSACTION, max_version_level=2)]
    answer = kafka_like().ask(schema.Request(feature_updates=updates), response.version)
    assert answer == response.decode()


REFUSED = [
    *[((TRANSACTION, level, kind), NO_TYPE) for level in (1, 2) for kind in (0, 4, -1)],
    ((TRANSACTION, 1, UPGRADE), NO_DOWNGRADE),
    ((TRANSACTION, 0, UPGRADE), NO_DOWNGRADE),
    ((TRANSACTION, -1, SAFE), "A feature version cannot be less than 0."),
    ((TRANSACTION, 3, UPGRADE), ONLY_TRANSACTION),
    (("nonsense", 0, UPGRADE), "Feature nonsense not found."),
    (("nonsense", 0, SAFE), "Feature nonsense not found."),
    (("nonsense", -5, UPGRADE), "A feature version cannot be less than 0."),
    (("nonsense", 1, UPGRADE), "Local controller 1 does not support this feature."),
    *[((METADATA, level, kind), ONLY_METADATA) for level in (0, 1, 6, 31) for kind in (SAFE, UNSAFE)],
    ((METADATA, 31, UPGRADE), ONLY_METADATA),
    ((METADATA, 29, UPGRADE), NO_DOWNGRADE),
    *[((name, -1, kind), "A feature version cannot be less than 0.") for name in (ELIGIBLE, KRAFT) for kind in (UPGRADE, SAFE, UNSAFE)],
    *[((name, 2, kind), ONLY_0_AND_1) for name in (ELIGIBLE, KRAFT) for kind in (UPGRADE, SAFE, UNSAFE)],
    *[((name, 0, UPGRADE), NO_DOWNGRADE) for name in (ELIGIBLE, KRAFT)],
    *[((KRAFT, level, kind), NO_TYPE) for level in (-1, 0, 1, 2) for kind in (0, 4)],
    *[((KRAFT, 0, kind), "Can't downgrade the version of this feature.") for kind in (SAFE, UNSAFE)],
]


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(("update", "reason"), REFUSED)
def test_refused(update: Asked, reason: str, validate_only: bool) -> None:
    broker = BrokerInMemory()
    before = finalized(broker)
    message = f"{FAILED}Invalid update version {update[1]} for feature {update[0]}. {reason}"
    assert ask(broker, update, validate_only=validate_only) == (95, message)
    assert ask(broker, (TRANSACTION, 1, SAFE), update, validate_only=validate_only)[0] == 95
    assert finalized(broker) == before


@pytest.mark.parametrize("level", [7, 8, 14, 17, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])
@pytest.mark.parametrize(("kind", "why"), [(SAFE, REFUSING), (UNSAFE, UNSAFE_NOT)])
def test_metadata_version_cannot_be_downgraded(level: int, kind: int, why: str) -> None:
    message = f"{FAILED}Unsupported metadata.version downgrade from 30 to {level}. {why}"
    assert ask(BrokerInMemory(), (METADATA, level, kind)) == (95, message)


@pytest.mark.parametrize(("current", "lowest"), [(29, 23), (22, 17), (16, 15), (14, 14), (12, 11), (10, 8), (7, 7)])
def test_compatible_metadata_versions_can_be_downgraded(current: int, lowest: int) -> None:
    """As MetadataVersion.checkIfMetadataChanged of Apache Kafka 4.3.1."""
    for level in range(7, current + 1):
        broker = BrokerInMemory()
        broker.cluster.image.apply(FeatureLevelRecord(name=METADATA, feature_level=current))
        assert ask(broker, (METADATA, level, SAFE))[0] == (0 if level >= lowest else 95)
        assert finalized(broker)[METADATA] == (level if level >= lowest else current)


def test_older_log_is_upgraded() -> None:
    broker = BrokerInMemory()
    for name, level in ((METADATA, 7), (TRANSACTION, 0)):
        broker.cluster.image.apply(FeatureLevelRecord(name=name, feature_level=level))
    broker.cluster.metadata.log.metadata_version = 7
    broker.cluster.create_topic("old")
    assert ask(broker, (METADATA, 30, UPGRADE), (TRANSACTION, 2, UPGRADE)) == (0, None)
    assert broker.cluster.metadata.log.metadata_version == 30
    broker.cluster.create_topic("new")
    broker = broker.restart(clean=False)
    assert finalized(broker) == default_levels() | {KRAFT: 1}
    assert list(broker.cluster.topics) == ["old", "new"]


@pytest.mark.parametrize("version", [1, 2])
def test_validate_only_changes_nothing(version: int) -> None:
    broker = BrokerInMemory()
    end = broker.cluster.metadata.last_offset
    for update in ((TRANSACTION, 1, SAFE), (TRANSACTION, 0, UNSAFE), (METADATA, 30, SAFE), (METADATA, 30, UPGRADE)):
        assert ask(broker, update, version=version, validate_only=True) == (0, None)
    assert ask(broker, version=version) == (0, None)
    assert broker.cluster.metadata.last_offset == end
    assert finalized(broker) == default_levels() | {KRAFT: 1}


def test_allow_downgrade_of_version_0_is_ignored() -> None:
    update = schema.FeatureUpdate(feature=TRANSACTION, max_version_level=1, allow_downgrade=True)
    answer = BrokerInMemory().ask(schema.Request(feature_updates=[update]), 0)
    assert (answer.error_code, answer.error_message) == (95, f"{FAILED}Invalid update version 1 for feature {TRANSACTION}. {NO_DOWNGRADE}")


def test_last_update_of_a_feature_wins() -> None:
    broker = BrokerInMemory()
    assert ask(broker, (TRANSACTION, 1, SAFE), (TRANSACTION, 2, UPGRADE)) == (0, None)
    assert finalized(broker)[TRANSACTION] == 2


def test_transaction_version_applies_immediately_and_survives_a_restart() -> None:
    broker = BrokerInMemory()
    written = []
    for level, kind in ((1, SAFE), (0, UNSAFE), (2, UPGRADE)):
        assert ask(broker, (TRANSACTION, level, kind), version=1) == (0, None)
        assert finalized(broker).get(TRANSACTION, 0) == level
        init_producer(broker, f"id-{level}")
        written.append(_version_of_last_transaction_record(broker, f"id-{level}"))
        broker = broker.restart(clean=False)
        assert finalized(broker).get(TRANSACTION, 0) == level
    assert written == [1, 0, 1]


def _version_of_last_transaction_record(broker: BrokerInMemory, transactional_id: str) -> int:
    values = [
        record.value
        for partition in broker.cluster.topic(TOPIC).partitions
        for batch in split_batches(bytes(partition.log.read(0, 1 << 20, isolation=None)))
        for record in decode_records(batch, max_bytes=1 << 20)
        if transactional_id.encode() in (record.key or b"")
    ]
    return int.from_bytes((values[-1] or b"")[:2], "big")


def test_unsupported_feature_can_only_be_removed() -> None:
    broker = BrokerInMemory()
    broker.cluster.image.apply(FeatureLevelRecord(name=NOT_SERVED, feature_level=1))
    assert ask(broker, (NOT_SERVED, 1, UPGRADE))[0] == 95
    assert ask(broker, (NOT_SERVED, 0, UPGRADE))[0] == 95
    assert ask(broker, (NOT_SERVED, 0, SAFE)) == (0, None)
    assert NOT_SERVED not in broker.cluster.image.features


def test_features_of_a_release() -> None:
    """As `kafka-features upgrade --release-version 4.3` asks for them."""
    broker = BrokerInMemory()
    expected = default_levels() | {KRAFT: 1}
    end = broker.cluster.metadata.last_offset
    for kind in (UPGRADE, SAFE):
        assert ask(broker, *((name, level, kind) for name, level in expected.items())) == (0, None)
    assert (finalized(broker), broker.cluster.metadata.last_offset) == (expected, end)
    older = [(METADATA, 25, SAFE), (ELIGIBLE, 0, SAFE), (KRAFT, 1, SAFE)]
    refused = f"{FAILED}Unsupported metadata.version downgrade from 30 to 25. {REFUSING}"
    assert ask(broker, *older) == (95, refused)


def test_eligible_leader_replicas_need_a_metadata_version() -> None:
    """As Apache Kafka 4.3.1 refused it: by the level that metadata.version has after the request."""
    broker = BrokerInMemory()
    assert ask(broker, (ELIGIBLE, 0, SAFE)) == (0, None)
    broker.cluster.image.apply(FeatureLevelRecord(name=METADATA, feature_level=21))
    words = f"{ELIGIBLE} could not be set to 1 because it depends on metadata.version level 23"
    refused = 95, f"{FAILED}Invalid update version 1 for feature {ELIGIBLE}. {words}"
    assert ask(broker, (ELIGIBLE, 1, UPGRADE)) == refused
    assert ask(broker, (METADATA, 22, UPGRADE), (ELIGIBLE, 1, UPGRADE)) == refused
    assert ask(broker, (ELIGIBLE, 1, UPGRADE), (METADATA, 23, UPGRADE), validate_only=True) == (0, None)
    assert ask(broker, (METADATA, 23, UPGRADE), (ELIGIBLE, 1, UPGRADE)) == (0, None)
    assert finalized(broker)[ELIGIBLE] == 1


def written_since(broker: BrokerInMemory, offset: int) -> list[Any]:
    """The records of the metadata log, of control records their keys."""
    data = Path(f"{broker.cluster.metadata.log.folder}/00000000000000000000.log").read_bytes()
    found = [(batch, record) for batch in split_batches(data) for record in decode_records(batch) if record.offset >= offset]
    return [record.key if batch.is_control else decode_frame(record.value or b"") for batch, record in found]


def test_elr_sets_min_insync_replicas_on_the_cluster() -> None:
    """The records that Apache Kafka 4.3.1 wrote for the same requests, in its order (DumpLogSegments)."""
    broker = BrokerInMemory(config={"min.insync.replicas": "1"})
    feature = partial(FeatureLevelRecord, name=ELIGIBLE)

    def minimum(name: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(resource_type=4, resource_name=name, name="min.insync.replicas", value=value)

    assert minimum("", "1") in written_since(broker, 0)
    end = broker.cluster.metadata.last_offset + 1
    assert ask(broker, (ELIGIBLE, 0, SAFE)) == (0, None)
    assert broker.cluster.config.dynamic_default == {"min.insync.replicas": "1"}
    broker.cluster.configs.alter_broker("1", {"min.insync.replicas": "1"})
    broker.cluster.configs.alter_broker("", {})
    assert written_since(broker, end) == [feature(feature_level=0), minimum("1", "1"), minimum("", None)]
    end = broker.cluster.metadata.last_offset + 1
    assert ask(broker, (ELIGIBLE, 1, UPGRADE)) == (0, None)
    assert written_since(broker, end) == [minimum("", "1"), minimum("1", None), feature(feature_level=1)]
    assert (broker.cluster.config.dynamic_default, broker.cluster.config.dynamic_broker) == ({"min.insync.replicas": "1"}, {})
    end = broker.cluster.metadata.last_offset + 1
    assert ask(broker, (ELIGIBLE, 0, UNSAFE)) == ask(broker, (ELIGIBLE, 1, UPGRADE)) == (0, None)
    assert written_since(broker, end) == [feature(feature_level=0), feature(feature_level=1)]
    again = broker.restart(clean=False)
    assert (again.cluster.features, again.cluster.config.dynamic_default) == (finalized(again), {"min.insync.replicas": "1"})


def with_static_voters(folder: Path) -> BrokerInMemory:
    """A broker whose log was begun with the voters in the configuration, as Apache Kafka leaves it."""
    metadata = folder / FOLDER
    metadata.mkdir(parents=True)
    write_quorum_state(RealFiles(), str(metadata / QUORUM_STATE), node_id=1, leader_epoch=1, data_version=0)
    return BrokerInMemory(folder=folder)


@pytest.mark.parametrize("leads", [True, False])
def test_voters_are_written_to_the_log(leads: bool, tmp_path: Path) -> None:
    """kraft.version 0 to 1: Apache Kafka 4.3.1 writes KRaftVersion and KRaftVoters as one batch, and quorum-state with the next epoch."""
    broker = with_static_voters(tmp_path)
    assert KRAFT not in finalized(broker)
    if not leads:
        broker = broker.restart()
    for update in ((KRAFT, 0, SAFE), (KRAFT, 0, UPGRADE), (KRAFT, 1, UPGRADE)):
        assert ask(broker, update, validate_only=True) == (0, None)
    assert ask(broker, (KRAFT, 1, SAFE))[1] == f"{FAILED}Invalid update version 1 for feature {KRAFT}. Can't downgrade to a newer version."
    end = broker.cluster.metadata.last_offset + 1
    assert ask(broker, (KRAFT, 1, UPGRADE)) == (0, None)
    controls = [control_key(ControlType.KRAFT_VERSION), control_key(ControlType.KRAFT_VOTERS)]
    assert written_since(broker, end) == ([] if leads else [control_key(ControlType.LEADER_CHANGE)]) + controls
    assert ask(broker, (KRAFT, 1, UPGRADE)) == (0, None)
    broker.cluster.create_topic("behind")
    for _ in range(2):
        assert finalized(broker)[KRAFT] == 1
        assert ask(broker, (KRAFT, 0, UNSAFE))[0] == 95
        broker = broker.restart(clean=False)
        assert set(broker.cluster.topics) == {"behind"}
    assert broker.cluster.metadata.log.quorum.voter_ids == {1}


def test_failed_write_keeps_static_voters(tmp_path: Path) -> None:
    files = FaultyFiles()
    with_static_voters(tmp_path)
    broker = BrokerInMemory(folder=tmp_path, files=files)
    broker.cluster.create_topic("before")
    files.fail("sync", errno.EIO)
    assert ask(broker, (KRAFT, 1, UPGRADE))[0] == KafkaStorageError.code
    assert KRAFT not in finalized(broker)
