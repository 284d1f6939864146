"""A broker process with a console and a lab, for tests over HTTP and in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

SITE = re.compile(r"(console|lab|registry) (http://[0-9.:]+)")


class ServedConsole:
    """A running broker until the context ends. Its console keeps its port when the broker is started again."""

    def __init__(self, folder: Path, *arguments: str, has_lab: bool = True) -> None:
        lab = ("--lab-port", "0") if has_lab else ()
        quick = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=3")
        self.broker = BrokerProcess(folder, "--console-port", str(free_port()), *lab, *quick, *arguments)

    @property
    def url(self) -> str:
        """http://HOST:PORT of the console."""
        return self.site_url("console")

    def site_url(self, name: str) -> str:
        """http://HOST:PORT of a site."""
        found: dict[str, str] = dict(SITE.findall(self.broker.output))
        return found[name]

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()
