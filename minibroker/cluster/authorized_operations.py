"""The authorized operations that responses report: bit n is AclOperation n of Apache Kafka (3 read ... 12 idempotent write).

These are all operations of each kind of resource, for brokers without an authorizer. With one,
`minibroker.dispatch.authorization` replaces them in answers.
"""

from __future__ import annotations

from typing import Final

TOPIC_OPERATIONS: Final = 0b1101_1111_1000  #: read, write, create, delete, alter, describe, describe configs, alter configs
CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000  #: create, alter, describe, cluster action, describe and alter configs, idempotent write
GROUP_OPERATIONS: Final = 0b1101_0100_1000  #: read, delete, describe, describe configs, alter configs
NOT_ASKED_FOR: Final = -(2**31)
