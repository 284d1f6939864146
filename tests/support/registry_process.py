"""A broker with a schema registry in a child process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port


@contextmanager
def registry_process(folder: Path, *options: str) -> Iterator[tuple[BrokerProcess, str]]:
    """The broker, and the URL of its registry."""
    with BrokerProcess(folder, "--registry-port", str(free_port()), *options) as broker:
        found = re.search(r"registry (http://\S+?),", broker.output)
        assert found is not None
        yield broker, found[1]
