"""All makes of transactional clients, by name."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Self

import pytest

from tests.clients.spoken_clients import SpokenClient, franz_go, java_client
from tests.clients.transactional import AioKafka, ConfluentKafka, KafkaPython, TransactionalClient

IN_PROCESS: dict[str, TransactionalClient] = {
    "confluent-kafka": ConfluentKafka(),
    "kafka-python": KafkaPython(),
    "aiokafka": AioKafka(),
}
PROGRAMS: dict[str, Callable[[str], SpokenClient]] = {
    "java-4.3.1": lambda bootstrap: java_client("4.3.1", bootstrap),
    "java-3.9.1": lambda bootstrap: java_client("3.9.1", bootstrap),
    "franz-go": franz_go,
}
NAMES = [*IN_PROCESS, *PROGRAMS]


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with each of these clients as `name`."""
    return pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.java) if n.startswith("java") else n for n in names])


class Clients:
    """Clients of one broker; programs are started when they are first asked for, and end with the context."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._started: dict[str, TransactionalClient] = dict(IN_PROCESS)
        self._stack = ExitStack()

    def __getitem__(self, name: str) -> TransactionalClient:
        if name not in self._started:
            self._started[name] = self._stack.enter_context(PROGRAMS[name](self.bootstrap))
        return self._started[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


_numbers = itertools.count()


def unique(name: str) -> str:
    """A transactional id, a group or a topic that no test used before."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"
