"""What Kafka's tools may say otherwise of us than of Apache Kafka 4.3.1, each with its reason. Everything else is a mistake of ours.

A rule is for commands that match; lines that only we have match `ours`, lines that only Kafka has match `kafkas`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tests.differential.allowed import CHANCE, holds
from tests.differential.tools.transcript import Difference


class Rule(NamedTuple):
    """A difference that we stand by."""

    reason: str
    command: str
    ours: str
    kafkas: str
    difference: str = ""  #: its name in minibroker/config/differences.py, or CHANCE

    def allows(self, difference: Difference) -> bool:
        if not re.search(self.command, difference.command):
            return False
        pairs = [(self.ours, line) for line in difference.ours] + [(self.kafkas, line) for line in difference.kafkas]
        return all(re.search(pattern, line) for pattern, line in pairs)


_UNSERVED: Final = "SaslHandshake|SaslAuthenticate|AlterReplicaLogDirs|UnregisterBroker|AddRaftVoter|RemoveRaftVoter"
_TELEMETRY: Final = "GetTelemetrySubscriptions|PushTelemetry"

RULES: Final = (
    Rule(
        "security is not served yet; one node has no voters, brokers or replicas to move",
        r"^BrokerApiVersions",
        rf"out:\s+({_UNSERVED})\(",
        rf"out:\s+({_UNSERVED})\(",
        difference="unserved",
    ),
    Rule(
        "clients push metrics without a plugin that receives them",
        r"^BrokerApiVersions",
        rf"out:\s+({_UNSERVED}|{_TELEMETRY})\(",
        rf"out:\s+({_UNSERVED}|{_TELEMETRY})\(",
        difference="telemetry",
    ),
    Rule(
        "replicas are not moved between log directories",
        r"^ReassignPartitions.*folder",
        r"",
        r"started moving|LogDirNotFound|exit 0",
        difference="unserved",
    ),
    Rule("the quorum has one voter for good", r"remove-controller", r"REMOVE_RAFT_VOTER", r"Cannot remove voter", difference="unserved"),
    Rule(
        "the one broker cannot be unregistered, so nobody can",
        r"^ClusterTool unregister",
        r"does not support|exit 0",
        r"",
        difference="unserved",
    ),
    Rule(
        "a misspelt broker config is refused; Kafka keeps it",
        r"^ConfigCommand .*brokers.*no\.such\.config",
        r"",
        r"Completed|exit 0",
        difference="kafka-trips",
    ),
    Rule(
        "the order is that of Kafka's map",
        r"^ConfigCommand --describe .*users",
        r"SCRAM-SHA-256=.*SCRAM-SHA-512=",
        r"SCRAM-SHA-512=.*SCRAM-SHA-256=",
        difference=CHANCE,
    ),
    Rule(
        "listeners do not change while we run",
        r"^ConfigCommand .*brokers.*listeners",
        r"\[listeners\]",
        r"\[listeners\]",
        difference="listeners",
    ),
    Rule(
        "groups do not wait by default (docs/configuration.md)",
        r"^ConfigCommand .*groups.*--all",
        r"(assignment\.interval|heartbeat\.interval|initial\.rebalance\.delay)\.ms=",
        r"(assignment\.interval|heartbeat\.interval|initial\.rebalance\.delay)\.ms=",
        difference="group-times",
    ),
    Rule(
        "a share group's epoch counts what happened to it",
        r"^ShareGroupCommand .*--verbose",
        r"out: sharers .* \d",
        r"out: sharers .* \d",
        difference="share-group-epoch",
    ),
    Rule(
        "whether the first answer to a KIP-848 member has its partitions already, or none yet, is a race with the assignor",
        r"^VerifiableConsumer .*--group-protocol consumer",
        r'"partitions_(assigned|revoked)","partitions":\[\]',
        r'"partitions_(assigned|revoked)","partitions":\[\]',
        difference=CHANCE,
    ),
)


def allowed(difference: Difference, *, like_kafka: bool = False) -> Rule | None:
    """The rule that lets a difference pass."""
    rules = (rule for rule in RULES if holds(rule.difference, like_kafka=like_kafka))
    return next((rule for rule in rules if rule.allows(difference)), None)
