"""What DescribeAcls, CreateAcls and DeleteAcls have in common while there is no authorizer.

Apache Kafka 4.3.1 answers them with SECURITY_DISABLED then. It closes the connection if a resource type, pattern type, operation or
permission type is 0, which stands for a name that the client does not know. It accepts numbers that are not assigned.
"""

from __future__ import annotations

from typing import Final

from minibroker.errors import WireError

NO_AUTHORIZER: Final = "No Authorizer is configured."
UNKNOWN: Final = 0


def check_known(*numbers: int) -> None:
    """Raise WireError if one of the numbers of an entry or a filter is UNKNOWN."""
    if UNKNOWN in numbers:
        raise WireError("an access control entry has a resource type, pattern type, operation or permission type of 0 (UNKNOWN)")
