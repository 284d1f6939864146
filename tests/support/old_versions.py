"""Whether the broker under test serves what Apache Kafka 4 dropped (KIP-896): 3.9.1 does, and we do."""

from __future__ import annotations

import pytest

from minibroker.client.connection import connect
from minibroker.client.transport import Deadline, parse_bootstrap
from minibroker.schemas import k01_fetch


def require_old_versions(bootstrap: str) -> None:
    """Skip the calling test where the broker is too new for clients of before Kafka 0.11."""
    connection = connect(parse_bootstrap(bootstrap)[0], Deadline(60_000))
    oldest = next(api.min_version for api in connection.api_versions.api_keys if api.api_key == k01_fetch.API_KEY)
    connection.close()
    if oldest > 0:
        pytest.skip("this broker serves no client of before Kafka 0.11")
