"""What tests of brokers under test have in common."""

from __future__ import annotations

import pytest

from minibroker.dispatch import registry
from minibroker.testing import certificates


@pytest.fixture(scope="session", autouse=True)
def handlers() -> None:
    """All handlers and schemas are modules of this process: behind a run in it pytester forgets what that run was the first to import."""
    list(registry.load())
    certificates.Certificates()  # cryptography cannot be imported twice
