"""Certificates that change while the broker runs, answered and served as by Apache Kafka 4.3.1 (tests.golden.captures.tls_changes)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from minibroker.server.broker import Broker
from tests.golden.captures.tls_changes import FILE
from tests.golden.tls_change_scenes import Files, Ports, Scene, properties
from tests.support.ports import free_ports
from tests.support.sasl_broker import SaslBroker

GOLDEN: dict[str, Any] = json.loads(FILE.read_text())["outcomes"]
#: Kafka stores users and mechanisms, and reads them when it starts. minibroker follows them at once (docs/security.md).
FOLLOWED = {"alice", "bob"}
_WRONG, _NO_PLAIN = 58, ["mechanism", 33, ["SCRAM-SHA-256"]]
#: step -> outcome of the logins of alice and bob after it
FOLLOWED_STEPS = {
    "another user": [_WRONG, 0],
    "no JAAS": [_WRONG, 0],
    "an unknown module": [_WRONG, 0],
    "the first user": [0, _WRONG],
    "one mechanism": [_NO_PLAIN, _NO_PLAIN],
    "no mechanism": [_NO_PLAIN, _NO_PLAIN],
    "the first mechanisms": [0, _WRONG],
}
_OTHER_WORDS = "org.apache.kafka.common.errors.InvalidConfigurationException: "


def comparable(outcome: Any) -> Any:
    """Return an outcome without what may differ: users, words about a broken file, and the order of names."""
    if isinstance(outcome, dict):
        return {name: seen for name, seen in outcome.items() if name not in FOLLOWED}
    if isinstance(outcome, list):
        return [comparable(each) for each in outcome]
    if not isinstance(outcome, str):
        return outcome
    outcome = outcome.replace("org.apache.kafka.common.KafkaException: ", _OTHER_WORDS)
    if _OTHER_WORDS in outcome:
        return outcome.partition(_OTHER_WORDS)[0]
    return re.sub(r"SAN=\[.*?\]}", lambda found: str(sorted(re.findall(r"[0-9], [^]]*", found[0]))), outcome)


def limits_of_handshakes(broker: Broker) -> int:
    """Return how many limits the three listeners with TLS have."""
    secured = [each.secured for each in broker.listeners if each.security_protocol == "SSL"]
    assert len(secured) == 3
    return len({id(vars(each)["_handshakes"]) for each in secured})


def test_changes_of_certificates(tmp_path: Path) -> None:
    first = free_ports(5)
    ports, files = Ports(*range(first, first + 5)), Files(tmp_path)
    with SaslBroker({"node.id": "1", "connection.failed.authentication.delay.ms": "0", **properties(ports, tmp_path)}) as broker:
        assert broker.call(limits_of_handshakes) == 1
        found = dict(Scene(ports, files, lambda: None).outcomes())
    different = {
        name: (outcome, GOLDEN.get(name)) for name, outcome in found.items() if comparable(outcome) != comparable(GOLDEN.get(name))
    }
    assert different == {}
    assert found.keys() == GOLDEN.keys()
    logins = {name: [found[name][2][user] for user in ("alice", "bob")] for name in found if name in FOLLOWED_STEPS}
    assert logins == FOLLOWED_STEPS
