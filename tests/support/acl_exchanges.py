"""What the tests of DescribeAcls, CreateAcls and DeleteAcls have in common."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.errors import WireError
from tests.golden import all_golden
from tests.support.broker_in_memory import BrokerInMemory


def requests_of(stem: str) -> list[str]:
    """The names of the golden requests of an API."""
    return sorted(name for name, each in all_golden().items() if each.stem == stem and each.direction == "request")


def expect_close(request: Any) -> None:
    """Check that the broker closes the connection because a number of the request is 0, at each version."""
    for version in (1, 2, 3):
        with pytest.raises(WireError, match="UNKNOWN"):
            BrokerInMemory().ask(request, version)
