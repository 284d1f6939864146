from __future__ import annotations

from typing import Any

import pytest

from minibroker.server.loop import run
from tests.server.serving import OnLoop


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    """Run a coroutine to its end, on asyncio's own loop and on uvloop."""
    return lambda main: run(main, request.param)


@pytest.fixture(params=["pauses", "does not pause"])
def writelines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `writelines` of asyncio pause its protocol or not: in Python 3.12 and early 3.13 it does not."""

    def write(transport: Any, chunks: list[bytes]) -> None:
        transport._maybe_pause_protocol = lambda: None
        transport.write(b"".join(chunks))
        del transport._maybe_pause_protocol

    if request.param == "does not pause":
        monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.writelines", write)
