"""What Kafka's tools may say otherwise of us than of Apache Kafka 4.3.1, each with its reason. Everything else is a mistake of ours.

A rule is for commands that match; lines that only we have match `ours`, lines that only Kafka has match `kafkas`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tests.differential.tools.transcript import Difference


class Rule(NamedTuple):
    """A difference that we stand by."""

    reason: str
    command: str
    ours: str
    kafkas: str

    def allows(self, difference: Difference) -> bool:
        if not re.search(self.command, difference.command):
            return False
        pairs = [(self.ours, line) for line in difference.ours] + [(self.kafkas, line) for line in difference.kafkas]
        return all(re.search(pattern, line) for pattern, line in pairs)


_UNSERVED: Final = (
    "SaslHandshake|SaslAuthenticate|(Create|Renew|Expire|Describe)DelegationToken"
    "|AlterReplicaLogDirs|UnregisterBroker|AddRaftVoter|RemoveRaftVoter"
)

RULES: Final = (
    Rule(
        "security is not served yet; one node has no voters, brokers or replicas to move",
        r"^BrokerApiVersions",
        rf"out:\s+({_UNSERVED})\(",
        rf"out:\s+({_UNSERVED})\(",
    ),
    Rule(
        "delegation tokens are not served; neither are they on Kafka's plain listeners", r"^DelegationToken", r"Unsupported", r"Unsupported"
    ),
    Rule("replicas are not moved between log directories", r"^ReassignPartitions.*folder", r"", r"started moving|LogDirNotFound|exit 0"),
    Rule("the quorum has one voter for good", r"remove-controller", r"REMOVE_RAFT_VOTER", r"Cannot remove voter"),
    Rule("the one broker cannot be unregistered, so nobody can", r"^ClusterTool unregister", r"does not support|exit 0", r""),
    Rule("a misspelt broker config is refused; Kafka keeps it", r"^ConfigCommand .*brokers.*no\.such\.config", r"", r"Completed|exit 0"),
    Rule(
        "the order is that of Kafka's map",
        r"^ConfigCommand --describe .*users",
        r"SCRAM-SHA-256=.*SCRAM-SHA-512=",
        r"SCRAM-SHA-512=.*SCRAM-SHA-256=",
    ),
    Rule("listeners do not change while we run", r"^ConfigCommand .*brokers.*listeners", r"\[listeners\]", r"\[listeners\]"),
    Rule(
        "groups do not wait by default (docs/configuration.md)",
        r"^ConfigCommand .*groups.*--all",
        r"(assignment\.interval|heartbeat\.interval|initial\.rebalance\.delay)\.ms=",
        r"(assignment\.interval|heartbeat\.interval|initial\.rebalance\.delay)\.ms=",
    ),
    Rule(
        "a share group's epoch counts what happened to it", r"^ShareGroupCommand .*--verbose", r"out: sharers .* \d", r"out: sharers .* \d"
    ),
    Rule(
        "whether the first answer to a KIP-848 member has its partitions already, or none yet, is a race with the assignor",
        r"^VerifiableConsumer .*--group-protocol consumer",
        r'"partitions_(assigned|revoked)","partitions":\[\]',
        r'"partitions_(assigned|revoked)","partitions":\[\]',
    ),
)


def allowed(difference: Difference) -> Rule | None:
    """The rule that lets a difference pass."""
    return next((rule for rule in RULES if rule.allows(difference)), None)
