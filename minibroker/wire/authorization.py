"""Types of resources and operations on them, by Kafka's numbers (AclOperation, ResourceType, AclBinding of Apache Kafka 4.3.1)."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


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
