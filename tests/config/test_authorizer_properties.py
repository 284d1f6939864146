"""The properties of the authorizer: what refuses a start, and what DescribeConfigs shows."""

from __future__ import annotations

import pytest

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.errors import ConfigurationError
from minibroker.schemas import k32_describe_configs as k32
from tests.support.broker_in_memory import BrokerInMemory

NAMES = ["allow.everyone.if.no.acl.found", "authorizer.class.name", "super.users"]


def test_authorizer_is_off_by_default() -> None:
    assert BrokerConfig().authorizer_class_name == ""
    assert BrokerInMemory().services.authorizer is None


def test_super_users_are_whole_principals() -> None:
    config = BrokerConfig({"super.users": " User:admin ;;User:CN=a,O=b; Role:x"})
    assert config.super_users == ("User:admin", "User:CN=a,O=b", "Role:x")
    authorizer = BrokerInMemory(config={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}).services.authorizer
    assert authorizer is not None
    assert authorizer.super_users == {"User:admin"}
    assert not authorizer.allow_everyone_if_no_acl


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer", f"the only authorizer is {STANDARD_AUTHORIZER}"),
        ("super.users", "admin", "super.users: 'admin' is not a principal: write User:admin"),
        ("allow.everyone.if.no.acl.found", "yes", "expected true or false, got 'yes'"),
    ],
)
def test_invalid_values_prevent_the_start(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BrokerConfig({name: value})


def test_authorizer_properties_not_in_kafka_are_sensitive_when_set() -> None:
    request = k32.Request(resources=[k32.Resource(resource_type=4, resource_name="1", configuration_keys=NAMES)])
    set_here = {"authorizer.class.name": "", "super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
    (result,) = BrokerInMemory(config=set_here).ask(request).results
    assert [(each.name, each.value, each.is_sensitive, each.read_only) for each in result.configs] == [
        ("allow.everyone.if.no.acl.found", None, True, True),
        ("authorizer.class.name", "", False, True),
        ("super.users", None, True, True),
    ]
    (result,) = BrokerInMemory().ask(request).results
    assert [each.name for each in result.configs] == ["authorizer.class.name"]
