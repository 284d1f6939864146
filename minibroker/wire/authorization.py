"""The operations on resources for which a request needs permission. Each schema declares them as `AUTHORIZES`, next to `ROUTED_BY`.

    AUTHORIZES = (OnGroup(Operation.READ), EachTopic(Operation.READ))

    OnCluster            an operation on the cluster
    OnGroup              an operation on the group that the request names
    OnTransactionalId    an operation on its transactional id
    EachTopic            an operation on each of its topics
    EachGroup            an operation on each group in a list
    Special              a rule that needs code
    UNRESTRICTED         nothing

Rules are checked in order: if the first one rejects a request, the second is not checked. Numbers are Kafka's (AclOperation,
ResourceType). `minibroker.dispatch.authorization` enforces the rules if the broker has an authorizer. Source of the rules: KafkaApis and
ControllerApis of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self


class ResourceType(IntEnum):
    """A kind of resource that access is controlled for. UNKNOWN and ANY occur in requests only."""

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
    """One of these operations on the cluster. Without permission, the whole request fails with CLUSTER_AUTHORIZATION_FAILED."""

    operations: tuple[Operation, ...]


class OnGroup(NamedTuple):
    """An operation on one group. Without permission, the whole request fails with GROUP_AUTHORIZATION_FAILED."""

    operation: Operation
    field: str = "group_id"  #: of the request; null is not checked, because the handler rejects it


class OnTransactionalId(NamedTuple):
    """An operation on one transactional id. Without permission, the request fails with TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""

    operation: Operation
    field: str = "transactional_id"


class EachTopic(NamedTuple):
    """An operation on each topic of the request. Topics without permission get TOPIC_AUTHORIZATION_FAILED, whether they exist or not."""

    operation: Operation


class EachGroup(NamedTuple):
    """An operation on each group in a list. Groups without permission get GROUP_AUTHORIZATION_FAILED."""

    operation: Operation
    keys: str  #: the request's list of group ids
    results: str  #: the response's list


class Special(NamedTuple):
    """A rule that needs code: `minibroker.dispatch.authorization.special` has a function for it."""

    rule: str  #: a description for readers


Rule = OnCluster | OnGroup | OnTransactionalId | EachTopic | EachGroup | Special

UNRESTRICTED: Final[tuple[Rule, ...]] = ()  #: every client may send the request
