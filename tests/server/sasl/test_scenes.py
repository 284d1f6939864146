"""Whole conversations of clients that log in, rightly and wrongly, answered as Apache Kafka 4.3.1 answered them."""

from __future__ import annotations

import json
from typing import Any

from tests.golden.captures.sasl import FILE
from tests.golden.sasl_scenes import Ports, answers, make_users, properties
from tests.support.ports import free_ports
from tests.support.sasl_broker import SaslBroker

GOLDEN: dict[str, Any] = json.loads(FILE.read_text())["answers"]

#: where minibroker answers something else
ALLOWED = {
    # Kafka's error answer to a request with null instead of users fails; ours has the error.
    "instead of a token DescribeUserScramCredentials": 34,
}


def test_every_conversation_goes_as_with_apache_kafka() -> None:
    first = free_ports(3)
    ports = Ports(first, first + 1, first + 2)
    with SaslBroker(properties(ports)):
        make_users(ports)
        found = answers(ports)
    different = {name: (said, GOLDEN.get(name)) for name, said in found.items() if said != GOLDEN.get(name)}
    for name, code in ALLOWED.items():
        assert different.pop(name)[0][1]["error_code"] == code
    assert different == {}
    assert found.keys() == GOLDEN.keys()
