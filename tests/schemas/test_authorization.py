"""Every API declares what a request asks for, in terms of fields that its structs have."""

from __future__ import annotations

from types import ModuleType

import pytest

from minibroker.schemas import k12_heartbeat
from minibroker.wire.api import api_of, name_of
from minibroker.wire.authorization import EachGroup, EachTopic, OnCluster, OnGroup, OnTransactionalId, Special
from minibroker.wire.schema import TOPIC_ID, TOPIC_NAME, entities_of, fields_of
from tests.schemas.declared import schema_modules


@pytest.mark.parametrize("schema", schema_modules(), ids=name_of)
def test_rules_refer_to_existing_fields(schema: ModuleType) -> None:
    api = api_of(schema)
    assert isinstance(api.authorizes, tuple)
    for rule in api.authorizes:
        if isinstance(rule, OnGroup | OnTransactionalId):
            assert {each.name: each.kind for each in fields_of(api.Request)}[rule.field] == "string"
        elif isinstance(rule, EachGroup):
            (keys,) = [each for each in fields_of(api.Request) if each.name == rule.keys]
            (results,) = [each for each in fields_of(api.Response) if each.name == rule.results]
            assert (keys.kind, keys.is_array, results.is_array) == ("string", True, True)
        elif isinstance(rule, EachTopic):
            structs = [each.struct for each in fields_of(api.Request) if each.struct is not None]
            assert any(not entities_of(each).keys().isdisjoint({TOPIC_NAME, TOPIC_ID}) for each in structs)
        elif isinstance(rule, OnCluster):
            assert rule.operations
        else:
            assert isinstance(rule, Special)
            assert rule.rule


def test_api_without_authorization_rules_is_rejected() -> None:
    copy = ModuleType(k12_heartbeat.__name__)
    copy.__dict__.update({name: value for name, value in vars(k12_heartbeat).items() if name != "AUTHORIZES"})
    with pytest.raises(TypeError, match="must declare AUTHORIZES"):
        api_of(copy)
