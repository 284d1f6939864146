"""Which event loop runs the broker: uvloop where it is installed, asyncio's own elsewhere or when asked for.

`MINIBROKER_LOOP=asyncio|uvloop` decides; unset means the best there is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final

from minibroker.errors import ConfigurationError

VARIABLE: Final = "MINIBROKER_LOOP"


def loop_factory(choice: str | None = None) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the loop: `choice`, else the environment's, else the best.

    Raises:
        ConfigurationError: the choice is unknown, or uvloop was asked for and is not installed.
    """
    choice = choice or os.environ.get(VARIABLE) or "best"
    if choice not in {"best", "asyncio", "uvloop"}:
        raise ConfigurationError(f"{VARIABLE}={choice}: use asyncio or uvloop")
    if choice != "asyncio":
        try:
            import uvloop  # noqa: PLC0415  optional
        except ImportError:
            if choice == "uvloop":
                raise ConfigurationError(f"{VARIABLE}=uvloop, but uvloop is not installed") from None
        else:
            factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
            return factory
    return asyncio.new_event_loop


def run(main: Coroutine[Any, Any, None], choice: str | None = None) -> None:
    """Run `main` to its end on the chosen loop."""
    with asyncio.Runner(loop_factory=loop_factory(choice)) as runner:
        runner.run(main)
