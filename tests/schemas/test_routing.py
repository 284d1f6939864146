"""Every API declares which broker serves it, in terms of fields that its structs have."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from minibroker.schemas import k10_find_coordinator
from minibroker.wire.api import api_of, name_of
from minibroker.wire.routing import (
    Controller,
    Coordinator,
    CoordinatorOfEach,
    CoordinatorType,
    EachBroker,
    EachCoordinator,
    PartitionLeader,
    Routing,
)
from minibroker.wire.schema import Field, fields_of
from tests.schemas.declared import schema_modules

KEYS = {"group_id", "group_ids", "groups_names", "transactional_id", "transactional_ids"}


def field_of(struct_type: type[Any], name: str) -> Field:
    return next(each for each in fields_of(struct_type) if each.name == name)


def list_field(struct_type: type[Any], name: str) -> Field:
    found = field_of(struct_type, name)
    assert found.is_array
    return found


def assert_key(struct_type: type[Any] | None, name: str) -> None:
    assert struct_type is not None
    found = field_of(struct_type, name)
    assert (found.kind, found.is_array) == ("string", False)


def all_fields(struct_type: type[Any]) -> Iterator[str]:
    for each in fields_of(struct_type):
        yield each.name
        if each.struct is not None:
            yield from all_fields(each.struct)


@pytest.mark.parametrize("schema", schema_modules(), ids=name_of)
def test_routing_refers_to_existing_fields(schema: ModuleType) -> None:
    api = api_of(schema)
    routing = api.routed_by
    assert isinstance(routing, Routing)
    if isinstance(routing, Coordinator) and routing.key is not None:
        assert_key(api.Request, routing.key)
    elif isinstance(routing, CoordinatorOfEach):
        keys = list_field(api.Request, routing.keys)
        if routing.key is None:
            assert keys.kind == "string"
        else:
            assert_key(keys.struct, routing.key)
        if routing.single_key is not None:
            assert_key(api.Request, routing.single_key)
            assert field_of(api.Request, routing.single_key).until == keys.since - 1
        assert list_field(api.Response, routing.results).struct is not None
    elif isinstance(routing, EachCoordinator):
        assert_key(list_field(api.Response, routing.results).struct, routing.key)
    elif isinstance(routing, EachBroker):
        assert list_field(api.Response, routing.results).struct is not None


@pytest.mark.parametrize("schema", schema_modules(), ids=name_of)
def test_routing_matches_the_struct_fields(schema: ModuleType) -> None:
    api = api_of(schema)
    routing = api.routed_by
    asked, answered = set(all_fields(api.Request)), set(all_fields(api.Response))
    assert (isinstance(routing, PartitionLeader) and routing.fences) == ("current_leader_epoch" in asked)
    assert (isinstance(routing, PartitionLeader) and routing.names_leader_since is not None) == ("current_leader" in answered)
    if asked & KEYS:
        assert isinstance(routing, Coordinator | CoordinatorOfEach | PartitionLeader)


def test_coordinator_types_match_find_coordinator_key_types() -> None:
    assert [each.value for each in CoordinatorType] == [
        k10_find_coordinator.GROUP,
        k10_find_coordinator.TRANSACTION,
        k10_find_coordinator.SHARE,
    ]


#: What `KafkaApis.handle` of Apache Kafka 4.3.1 passes to `forwardToController`, read from the bytecode of kafka_2.13-4.3.1.jar
#: (javap -c kafka.server.KafkaApis), of the APIs that this broker serves. AlterConfigs and IncrementalAlterConfigs are handled by the
#: broker for its own configs, then forwarded.
FORWARDED = {
    *("CreateTopics", "DeleteTopics", "CreateAcls", "DeleteAcls", "CreatePartitions", "ElectLeaders", "AlterPartitionReassignments"),
    *("ListPartitionReassignments", "AlterClientQuotas", "AlterUserScramCredentials", "UpdateFeatures", "DescribeQuorum"),
    *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"),
}
FORWARDED_IN_PART = {"AlterConfigs", "IncrementalAlterConfigs"}


def test_controller_apis_match_those_apache_kafka_forwards() -> None:
    apis = map(api_of, schema_modules())
    assert {api.name for api in apis if isinstance(api.routed_by, Controller)} == FORWARDED | FORWARDED_IN_PART
