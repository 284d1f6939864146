"""What a request asks for: resources and operations on them. Each schema declares it as `AUTHORIZES`, next to `ROUTED_BY`.

    AUTHORIZES = (OnGroup(Operation.READ), EachTopic(Operation.READ))

    OnCluster            an operation on the cluster
    OnGroup              an operation on the group that the request names
    OnTransactionalId    an operation on its transactional id
    EachTopic            an operation on each of its topics
    EachGroup            an operation on each group in a list
    Special              a rule that needs code
    UNRESTRICTED         nothing

Rules hold in their order: a request that the first one refuses is not looked at by the second. Numbers are Kafka's (AclOperation,
ResourceType). `minibroker.dispatch.authorization` enforces the rules if the broker has an authorizer. Source of the rules: KafkaApis and
ControllerApis of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self


class ResourceType(IntEnum):
    """A kind of thing that access is controlled for. UNKNOWN and ANY occur in requests only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        """Read numbers that are not assigned as UNKNOWN, as Kafka does."""
        return cls(0)


class Operation(IntEnum):
    """What a client does with a resource. UNKNOWN and ANY occur in requests only; ALL in access control entries."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        """Read numbers that are not assigned as UNKNOWN, as Kafka does."""
        return cls(0)


class OnCluster(NamedTuple):
    """One of these operations on the cluster. Otherwise the whole request is CLUSTER_AUTHORIZATION_FAILED."""

    operations: tuple[Operation, ...]


class OnGroup(NamedTuple):
    """An operation on one group. Otherwise the whole request is GROUP_AUTHORIZATION_FAILED."""

    operation: Operation
    field: str = "group_id"  #: of the request; null is not checked, because the handler rejects it


class OnTransactionalId(NamedTuple):
    """An operation on one transactional id. Otherwise the whole request is TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    operation: Operation
    field: str = "transactional_id"


class EachTopic(NamedTuple):
    """An operation on each topic that the request names. The others are TOPIC_AUTHORIZATION_FAILED, whether they exist or not."""

    operation: Operation


class EachGroup(NamedTuple):
    """An operation on each group in a list. The others are GROUP_AUTHORIZATION_FAILED."""

    operation: Operation
    keys: str  #: the request's list of group ids
    results: str  #: the response's list


class Special(NamedTuple):
    """A rule that needs code: `minibroker.dispatch.authorization.special` has a function for it."""

    rule: str  #: what it asks for, for people


Rule = OnCluster | OnGroup | OnTransactionalId | EachTopic | EachGroup | Special

UNRESTRICTED: Final[tuple[Rule, ...]] = ()  #: no client is asked
