"""SaslHandshake after the login or without SASL. tests/server/sasl has the logins."""

from __future__ import annotations

import json

import pytest

from minibroker.schemas import k17_sasl_handshake as schema
from tests.golden.captures.sasl import FILE
from tests.golden.sasl_scenes import shown
from tests.support.broker_in_memory import BrokerInMemory


@pytest.mark.parametrize("version", [0, 1])
def test_illegal_state_without_sasl(version: int) -> None:
    (kafkas,) = json.loads(FILE.read_text())["answers"]["SaslHandshake without SASL"]
    broker = BrokerInMemory()
    assert shown(broker.ask(schema.Request(mechanism="PLAIN"), version)) == kafkas
    assert broker.connection.principal == "User:ANONYMOUS"
    broker.cluster.close()
