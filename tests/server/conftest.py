from __future__ import annotations

import pytest

from minibroker.server.loop import run
from tests.server.serving import OnLoop


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    """Run a coroutine to its end, on asyncio's own loop and on uvloop."""
    return lambda main: run(main, request.param)
