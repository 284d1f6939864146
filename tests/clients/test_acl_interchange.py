"""Access control lists go from minibroker to Apache Kafka with the directory, change there, come back, and survive SIGKILL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minibroker.client.access import creation_of
from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k29_describe_acls as k29
from minibroker.schemas import k30_create_acls as k30
from minibroker.schemas import k31_delete_acls as k31
from minibroker.security.acl import Acl
from tests.clients.test_settings_interchange import ask
from tests.support.access import acl
from tests.support.authorized_twins import become
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_metadata_log
from tests.support.kafka_process import KafkaProcess

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
OPTIONS = [each for name, value in SETTINGS.items() for each in ("--set", f"{name}={value}")]
OURS = ["alice READ TOPIC orders-*", "alice DENY WRITE TOPIC orders-7", "* DESCRIBE GROUP *", "bob ALL CLUSTER kafka-cluster"]
KAFKAS = ["carol WRITE TRANSACTIONAL_ID x", "dave CREATE_TOKENS USER User:erin"]
ANY: dict[str, Any] = {"resource_name_filter": None, "pattern_type_filter": 1, "host_filter": None, "operation": 1, "permission_type": 1}


def create(bootstrap: str, lines: list[str]) -> None:
    creations = [creation_of(acl(line)) for line in lines]
    assert {each.error_code for each in ask(bootstrap, k30.Request(creations=creations)).results} == {0}


def delete(bootstrap: str, principal: str) -> None:
    (result,) = ask(
        bootstrap, k31.Request(filters=[k31.DeleteAclsFilter(resource_type_filter=1, principal_filter=principal, **ANY)])
    ).filter_results
    assert result.matching_acls


def described(bootstrap: str) -> set[tuple[Any, ...]]:
    answer = ask(bootstrap, k29.Request(resource_type_filter=1, principal_filter=None, **ANY))
    assert answer.error_code == 0
    return {
        (each.resource_type, each.resource_name, each.pattern_type, one.principal, one.host, one.operation, one.permission_type)
        for each in answer.resources
        for one in each.acls
    }


def entries(*lines: str) -> set[Acl]:
    return set(map(acl, lines))


def test_acls_survive_moving_to_kafka_and_back(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    with BrokerProcess(tmp_path, *OPTIONS) as broker:
        create(broker.bootstrap, [*OURS, "eve READ TOPIC gone"])
        delete(broker.bootstrap, "User:eve")
        assert described(broker.bootstrap) == entries(*OURS)
        broker.kill()
        broker.start()
        assert described(broker.bootstrap) == entries(*OURS)
    check_metadata_log(broker.data_dir)
    with KafkaProcess(tmp_path / "kafka", broker.data_dir, settings=SETTINGS) as kafka:
        become(lambda: described(kafka.bootstrap) == entries(*OURS))
        create(kafka.bootstrap, KAFKAS)
        delete(kafka.bootstrap, "User:bob")
    with BrokerProcess(tmp_path, *OPTIONS) as broker:
        assert described(broker.bootstrap) == entries(*OURS[:3], *KAFKAS)
    check_metadata_log(broker.data_dir)


def test_a_client_without_rights_is_refused_and_logged(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--set", f"authorizer.class.name={STANDARD_AUTHORIZER}") as broker:
        part = k02.Partition(partition_index=0, timestamp=-1)
        answer = ask(broker.bootstrap, k02.Request(replica_id=-1, topics=[k02.Topic(name="orders", partitions=[part])]))
        assert answer.topics[0].partitions[0].error_code == 29
        line = "INFO kafka.authorizer.logger: Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = 127.0.0.1"
        become(lambda: line in broker.output_path.read_text())
