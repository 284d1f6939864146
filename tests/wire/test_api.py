from __future__ import annotations

from types import ModuleType

import pytest

from minibroker.schemas import k02_list_offsets, k18_api_versions, k23_offset_for_leader_epoch, k75_describe_topic_partitions
from minibroker.wire.api import api_of
from minibroker.wire.authorization import UNRESTRICTED
from minibroker.wire.routing import AnyBroker


@pytest.mark.parametrize(
    ("module", "key", "name"),
    [
        (k02_list_offsets, 2, "ListOffsets"),
        (k18_api_versions, 18, "ApiVersions"),
        (k23_offset_for_leader_epoch, 23, "OffsetForLeaderEpoch"),
        (k75_describe_topic_partitions, 75, "DescribeTopicPartitions"),
    ],
)
def test_key_and_name_match_kafka(module: ModuleType, key: int, name: str) -> None:
    api = api_of(module)
    assert (api.key, api.name) == (key, name)
    assert (api.Request, api.Response) == (module.Request, module.Response)


def test_versions() -> None:
    api = api_of(k02_list_offsets)
    assert [api.serves(version) for version in (-1, 0, 11, 12)] == [False, True, True, False]
    assert [api.flexible(version) for version in (5, 6, 11)] == [False, True, True]


def test_api_without_flexible_versions() -> None:
    module = ModuleType("minibroker.schemas.k17_sasl_handshake")
    vars(module).update(API_KEY=17, VERSIONS=(0, 1), ROUTED_BY=AnyBroker(), AUTHORIZES=UNRESTRICTED)
    vars(module).update(FLEXIBLE_SINCE=None, Request=object, Response=object)
    assert not api_of(module).flexible(32767)
    assert repr(api_of(module)) == "<Api 17 SaslHandshake 0..1>"


def test_schema_without_routing_is_rejected() -> None:
    module = ModuleType("minibroker.schemas.k93_new")
    vars(module).update(API_KEY=93, VERSIONS=(0, 0), FLEXIBLE_SINCE=0, Request=object, Response=object)
    with pytest.raises(TypeError, match=r"minibroker\.schemas\.k93_new must declare ROUTED_BY"):
        api_of(module)
