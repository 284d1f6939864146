"""Logs in a temporary folder, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.files import RealFiles

OpenLog = Callable[..., PartitionLog]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_log(tmp_path: Path, clock: ManualClock) -> OpenLog:
    """Opens tmp_path/orders-0; keyword arguments that are no argument of PartitionLog.open change the configuration."""

    def open_(**arguments: Any) -> PartitionLog:
        config = {name: arguments.pop(name) for name in list(arguments) if name in LogConfig._fields}
        arguments.setdefault("files", RealFiles())
        arguments.setdefault("clock", clock)
        return PartitionLog.open(tmp_path / "orders-0", config=LogConfig(**config), **arguments)

    return open_
