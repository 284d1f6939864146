"""DeleteAcls: golden frames of real clients, and Apache Kafka 4.3.1's answers without an authorizer (raw frames, 2026-11-23)."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.schemas import k31_delete_acls as schema
from tests.golden import golden
from tests.support.acl_exchanges import expect_close, requests_of
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve


@pytest.mark.parametrize("name", requests_of("k31_delete_acls"))
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    assert serve(kafka_like(), golden(name)) in kafka_answers(golden(name))


def matching(**changes: Any) -> schema.DeleteAclsFilter:
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    numbers = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    return schema.DeleteAclsFilter(**(names | numbers | changes))


NUMBERS = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_of_0_closes_the_connection(field: str) -> None:
    expect_close(schema.Request(filters=[matching(), matching(**{field: 0})]))


def test_each_filter_is_refused_without_authorizer() -> None:
    odd = [matching(**{field: 99}) for field in NUMBERS] + [matching(resource_name_filter="", principal_filter="", host_filter="")]
    answer = BrokerInMemory().ask(schema.Request(filters=odd))
    results = [(each.error_code, each.error_message, each.matching_acls) for each in answer.filter_results]
    assert results == [(54, "No Authorizer is configured.", [])] * 5
