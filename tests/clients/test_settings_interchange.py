"""Quotas, credentials, features and configs go from minibroker to Apache Kafka with the directory, are altered there, and come back."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k48_describe_client_quotas as k48
from minibroker.schemas import k49_alter_client_quotas as k49
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.schemas import k55_describe_quorum as k55
from minibroker.schemas import k57_update_features as k57
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from tests.support.broker_process import BrokerProcess
from tests.support.client_quotas import entry
from tests.support.dump_log import check_metadata_log
from tests.support.kafka_process import KafkaProcess
from tests.support.scram_credentials import SHA_256, SHA_512, upsertion

TRANSACTION = "transaction.version"
BROKER, METRICS, GROUP = 4, 16, 32
SET, DELETE = 0, 1
OURS: dict[tuple[int, str], dict[str, str | None]] = {
    (BROKER, ""): {"group.consumer.assignment.interval.ms": "2000"},
    (BROKER, "1"): {"max.connections": "900", "leader.replication.throttled.rate": "1000"},
    (METRICS, "m"): {"metrics": "a,b", "match": "client_id=x", "interval.ms": "500"},
    (GROUP, "billing"): {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"},
}
KAFKAS: dict[tuple[int, str], dict[str, str | None]] = {
    (BROKER, ""): {"num.io.threads": "9", "a.plugin": "x"},
    (BROKER, "1"): {"log.cleaner.threads": "2", "leader.replication.throttled.rate": None},
    (METRICS, "m"): {"metrics": None, "match": None, "interval.ms": None},
    (GROUP, "billing"): {"consumer.session.timeout.ms": "55000"},
}
State = tuple[list[Any], list[Any], int]


def ask(bootstrap: str, request: Any) -> Any:
    """The answer of the newest version."""
    api = api_of(sys.modules[type(request).__module__])
    version = api.max_version
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=1, client_id="test")
    frame = bytes(encode_request_header(header, request_header_version(api, version)))
    frame += encode(request, version, flexible=api.flexible(version))
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection, connection.makefile("rb") as answers:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        data = answers.read(int.from_bytes(answers.read(4), "big"))
    _, position = decode_response_header(data, response_header_version(api, version))
    return decode(api.Response, data[position:], version, flexible=api.flexible(version))


def state(bootstrap: str) -> State:
    """Quotas, credentials and the level of transaction.version; without the order of hash maps."""
    quotas = ask(bootstrap, k48.Request(components=[], strict=False)).entries
    quotas = sorted((str(each.entity), sorted((value.key, value.value) for value in each.values)) for each in quotas)
    credentials = ask(bootstrap, k50.Request(users=None)).results
    infos = sorted((each.user, sorted((info.mechanism, info.iterations) for info in each.credential_infos)) for each in credentials)
    features = ask(bootstrap, k18.Request(client_software_name="test", client_software_version="1")).finalized_features
    (quorum,) = (
        ask(bootstrap, k55.Request(topics=[k55.Topic(topic_name="__cluster_metadata", partitions=[_PARTITION])])).topics[0].partitions
    )
    assert (quorum.error_code, quorum.leader_id) == (0, 1)
    return quotas, infos, next((each.max_version_level for each in features if each.name == TRANSACTION), 0)


_PARTITION = k55.Partition(partition_index=0)


def alter(bootstrap: str, quotas: list[k49.Entry], upsertions: list[k51.Upsertion], deletions: list[k51.Deletion], level: int) -> None:
    answer = ask(bootstrap, k49.Request(entries=quotas, validate_only=False))
    assert {each.error_code for each in answer.entries} <= {0}
    answer = ask(bootstrap, k51.Request(deletions=deletions, upsertions=upsertions))
    assert {each.error_code for each in answer.results} <= {0}
    update = k57.FeatureUpdate(feature=TRANSACTION, max_version_level=level, upgrade_type=1 if level == 2 else 2)
    assert ask(bootstrap, k57.Request(feature_updates=[update])).error_code == 0


def configs(bootstrap: str, kind: int, name: str) -> dict[str, str | None]:
    """Those that were altered, of a broker those of all brokers too."""
    resource = k32.Resource(resource_type=kind, resource_name=name, configuration_keys=None)
    result = ask(bootstrap, k32.Request(resources=[resource])).results[0]
    assert result.error_code == 0
    sources = {BROKER: {2, 3}, METRICS: {7}, GROUP: {8}}[kind]
    return {each.name: each.value for each in result.configs if each.config_source in sources and each.name != "min.insync.replicas"}


def alter_configs(bootstrap: str, wanted: dict[tuple[int, str], dict[str, str | None]]) -> None:
    """Set these, None takes away."""
    resources = [
        k44.Resource(
            resource_type=kind,
            resource_name=name,
            configs=[k44.Config(name=key, config_operation=DELETE if value is None else SET, value=value) for key, value in values.items()],
        )
        for (kind, name), values in wanted.items()
    ]
    answer = ask(bootstrap, k44.Request(resources=resources, validate_only=False))
    assert [(each.error_code, each.error_message) for each in answer.responses] == [(0, None)] * len(resources)


def test_settings_survive_moving_to_kafka_and_back(tmp_path: Path) -> None:
    both = (("user", "a"), ("client-id", None))
    (tmp_path / "kafka").mkdir()
    with BrokerProcess(tmp_path) as broker:
        quotas = [entry(both, ("producer_byte_rate", 1024)), entry((("ip", "1.2.3.4"),), ("connection_creation_rate", 7))]
        alter(broker.bootstrap, quotas, [upsertion("a"), upsertion("b", SHA_512, 5000)], [], 1)
        alter_configs(broker.bootstrap, OURS)
        ours = state(broker.bootstrap)
    check_metadata_log(broker.data_dir)
    with KafkaProcess(tmp_path / "kafka", broker.data_dir) as kafka:
        assert state(kafka.bootstrap) == ours
        for (kind, name), values in OURS.items():
            assert configs(kafka.bootstrap, kind, name).items() >= values.items()
        alter_configs(kafka.bootstrap, KAFKAS)
        quotas = [entry(both, ("producer_byte_rate", None)), entry((("user", None),), ("request_percentage", 12.5))]
        alter(kafka.bootstrap, quotas, [upsertion("a", SHA_256, 8192)], [k51.Deletion(name="b", mechanism=SHA_512)], 2)
    with BrokerProcess(tmp_path) as broker:
        quotas_found, credentials, level = state(broker.bootstrap)
        assert configs(broker.bootstrap, BROKER, "1").items() >= {"max.connections": "900", "log.cleaner.threads": "2"}.items()
        shared = {"a.plugin": None, "group.consumer.assignment.interval.ms": "2000", "num.io.threads": "9"}  # a plugin's value is hidden
        assert configs(broker.bootstrap, BROKER, "") == shared
        assert configs(broker.bootstrap, METRICS, "m") == {}
        assert configs(broker.bootstrap, GROUP, "billing") == {
            "consumer.session.timeout.ms": "55000",
            "share.auto.offset.reset": "earliest",
        }
    assert (credentials, level) == ([("a", [(SHA_256, 8192)])], 2)
    assert [values for _, values in quotas_found] == [[("connection_creation_rate", 7.0)], [("request_percentage", 12.5)]]
