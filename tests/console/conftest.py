from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.scene import consume, fill, fill_registry, fill_with_hostile
from tests.console.served import ServedConsole


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """A broker with topics, transactions, groups, and hostile data, and a member that stays."""
    with ServedConsole(tmp_path_factory.mktemp("console"), "--registry-port", "0") as served:
        fill_registry(served.site_url("registry"))
        fill(served.bootstrap, served.url)
        fill_with_hostile(served.bootstrap, served.url)
        consume(served.bootstrap, "auditors", "payments", count=20).close()
        member = consume(served.bootstrap, "billing", "orders", count=50)
        yield served
        member.close()
