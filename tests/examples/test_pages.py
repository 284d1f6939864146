"""The commands on the examples' pages, as they stand there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.testing import BrokerThread, Surface
from tests.examples.test_suites import EXAMPLES

ENDED_WITHIN_S = 60


class Page:
    """The commands of an example's page: those in the foreground are run, programs are started, and `serve` is there already."""

    def __init__(self, example: str, broker: Surface) -> None:
        (block,) = re.findall(r"```sh\n(.*?)```", (EXAMPLES / example / "README.md").read_text(), re.DOTALL)
        self._lines = block.replace("localhost:9092", broker.bootstrap_servers).splitlines()
        folder = str(Path(sys.executable).parent)
        more = {"PATH": f"{folder}:{os.environ['PATH']}", "MINIBROKER_BOOTSTRAP_SERVER": broker.bootstrap_servers}
        self._environment = os.environ | more
        self._program: subprocess.Popen[str] | None = None

    def follow(self) -> str:
        """Do as the page says; what the commands told."""
        told = ""
        for line in self._lines:
            if line.startswith("minibroker serve &"):
                continue
            if line.startswith("python -m"):
                self._program = subprocess.Popen(
                    ["bash", "-c", f"exec {line.removesuffix(' &')}"],
                    cwd=EXAMPLES,
                    env=self._environment,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            else:
                told += subprocess.run(
                    ["bash", "-c", line], env=self._environment, check=True, capture_output=True, text=True, timeout=ENDED_WITHIN_S
                ).stdout
        return told

    def end(self) -> None:
        """As a service manager ends a program: it does so in order."""
        assert self._program is not None
        self._program.send_signal(signal.SIGTERM)
        _, said = self._program.communicate(timeout=ENDED_WITHIN_S)
        assert self._program.returncode == 0, said
        self._program = None

    def close(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.communicate()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as broker:
        yield broker


@pytest.fixture
def page(broker: BrokerThread, request: pytest.FixtureRequest) -> Iterator[Page]:
    broker.reset()
    page = Page(request.param, broker)
    yield page
    page.close()


@pytest.mark.parametrize("page", ["orders_sync"], indirect=True)
def test_orders_are_shipped(broker: BrokerThread, page: Page) -> None:
    page.follow()
    assert [record.json()["total_cents"] for record in broker.records("shipments", count=1)] == [240]
    page.end()
    assert broker.request_log.of("LeaveGroup", group="shipping")


@pytest.mark.parametrize("page", ["orders_async"], indirect=True)
def test_orders_are_tracked(broker: BrokerThread, page: Page) -> None:
    page.follow()
    assert [record.json()["state"] for record in broker.records("order-status", count=1)] == ["open"]
    page.end()
