"""UpdateFeatures: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.cluster.features import default_levels
from minibroker.records.batch import split_batches
from minibroker.records.record import decode_records
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k57_update_features as schema
from minibroker.schemas.internal.setting_records import FeatureLevelRecord
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
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
NOT_SERVED = "eligible.leader.replicas.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "
NO_TYPE = "The controller does not support the given upgrade type."
NO_DOWNGRADE = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
REFUSING = "Refusing to perform the requested downgrade because it might delete metadata information."
UNSAFE_NOT = "Unsafe metadata downgrade is not supported in this version."
ONLY_METADATA, ONLY_TRANSACTION = "Local controller 1 only supports versions 7-30", "Local controller 1 only supports versions 0-2"
Asked = tuple[str, int, int]  #: feature, level, upgrade type


def ask(broker: BrokerInMemory, *updates: Asked, version: int = 2, validate_only: bool = False) -> tuple[int, str | None]:
    """Code and message; the results are those of the version."""
    asked = [schema.FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    answer = broker.ask(schema.Request(feature_updates=asked, validate_only=validate_only), version)
    told = [(name, 0, "NONE") for name, _, _ in updates] if version < 2 and answer.error_code == 0 else []
    assert [(each.feature, each.error_code, each.error_message) for each in answer.results] == told
    return answer.error_code, answer.error_message


def finalized(broker: BrokerInMemory) -> dict[str, int]:
    answer = broker.ask(k18.Request(client_software_name="a", client_software_version="1"))
    return {each.name: each.max_version_level for each in answer.finalized_features}


@pytest.mark.parametrize("name", REQUESTS)
def test_clients_get_the_bytes_that_kafka_sent(name: str) -> None:
    assert serve(kafka_like(), golden(name)) in kafka_answers(golden(name))


@pytest.mark.parametrize("name", [f"{STEM}_v{version}_response_franz_go_1.22.2_groups_small" for version in (0, 1, 2)])
def test_success_in_kafkas_bytes(name: str) -> None:
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
def test_no_metadata_version_below_the_newest(level: int, kind: int, why: str) -> None:
    message = f"{FAILED}Unsupported metadata.version downgrade from 30 to {level}. {why}"
    assert ask(BrokerInMemory(), (METADATA, level, kind)) == (95, message)


@pytest.mark.parametrize(("current", "lowest"), [(29, 23), (22, 17), (16, 15), (14, 14), (12, 11), (10, 8), (7, 7)])
def test_metadata_versions_that_did_not_change_records(current: int, lowest: int) -> None:
    """As MetadataVersion.checkIfMetadataChanged of Apache Kafka 4.3.1."""
    for level in range(7, current + 1):
        broker = BrokerInMemory()
        broker.cluster.image.apply(FeatureLevelRecord(name=METADATA, feature_level=current))
        assert ask(broker, (METADATA, level, SAFE))[0] == (0 if level >= lowest else 95)
        assert finalized(broker)[METADATA] == (level if level >= lowest else current)


def test_an_older_log_is_raised() -> None:
    broker = BrokerInMemory()
    for name, level in ((METADATA, 7), (TRANSACTION, 0)):
        broker.cluster.image.apply(FeatureLevelRecord(name=name, feature_level=level))
    broker.cluster.metadata_log.metadata_version = 7
    broker.cluster.create_topic("old")
    assert ask(broker, (METADATA, 30, UPGRADE), (TRANSACTION, 2, UPGRADE)) == (0, None)
    assert broker.cluster.metadata_log.metadata_version == 30
    broker.cluster.create_topic("new")
    broker = broker.restart(clean=False)
    assert finalized(broker) == default_levels()
    assert list(broker.cluster.topics) == ["old", "new"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_dry_run_changes_nothing(version: int) -> None:
    broker = BrokerInMemory()
    end = broker.cluster.metadata_offset
    for update in ((TRANSACTION, 1, SAFE), (TRANSACTION, 0, UNSAFE), (METADATA, 30, SAFE), (METADATA, 30, UPGRADE)):
        assert ask(broker, update, version=version, validate_only=True) == (0, None)
    assert ask(broker, version=version) == (0, None)
    assert broker.cluster.metadata_offset == end
    assert finalized(broker) == default_levels()


def test_allow_downgrade_of_version_0_allows_nothing() -> None:
    update = schema.FeatureUpdate(feature=TRANSACTION, max_version_level=1, allow_downgrade=True)
    answer = BrokerInMemory().ask(schema.Request(feature_updates=[update]), 0)
    assert (answer.error_code, answer.error_message) == (95, f"{FAILED}Invalid update version 1 for feature {TRANSACTION}. {NO_DOWNGRADE}")


def test_the_last_update_of_a_feature_counts() -> None:
    broker = BrokerInMemory()
    assert ask(broker, (TRANSACTION, 1, SAFE), (TRANSACTION, 2, UPGRADE)) == (0, None)
    assert finalized(broker)[TRANSACTION] == 2


def test_transaction_version_takes_effect_at_once_and_for_good() -> None:
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


def test_a_feature_that_is_not_served_can_only_go() -> None:
    broker = BrokerInMemory()
    broker.cluster.image.apply(FeatureLevelRecord(name=NOT_SERVED, feature_level=1))
    assert ask(broker, (NOT_SERVED, 1, UPGRADE))[0] == 95
    assert ask(broker, (NOT_SERVED, 0, UPGRADE))[0] == 95
    assert ask(broker, (NOT_SERVED, 0, SAFE)) == (0, None)
    assert NOT_SERVED not in broker.cluster.image.features
