"""A running cluster, such as an Apache Kafka, on which the same tests should pass (`--minibroker-bootstrap`).

Its `reset` deletes the topics and groups that did not exist when the test run started. The cluster
must therefore serve tests only, and one test at a time: the plugin has the workers of pytest-xdist
take turns. Operations that no Kafka has raise Unsupported.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.testing.clients import PushingClient
from minibroker.testing.data import Snapshot
from minibroker.testing.options import BrokerError, Unsupported
from minibroker.testing.request_log import RequestLog
from minibroker.testing.surface import Surface

KEPT_PREFIX: Final = "minibroker-topic-"  #: of topics that `reset` keeps: tests of other workers use them
_GONE_TIMEOUT_S: Final = 30.0
_LEFT_TIMEOUT_S: Final = 3.0
_POLL_INTERVAL_S: Final = 0.02


class GivenCluster(Surface):
    """A running cluster by its bootstrap servers.

    `reset` keeps the topics and groups that `start` found.
    """

    def __init__(
        self, bootstrap_servers: str, *, unsupported: Callable[[str], NoReturn] | None = None, baseline: Path | None = None
    ) -> None:
        """Name the cluster; `start` connects.

        Args:
            bootstrap_servers: HOST:PORT of one or more brokers.
            unsupported: called with a message when a test uses an operation that only minibroker has.
            baseline: a file in which the first of several processes lists the topics and groups to keep.
        """
        self._bootstrap_servers = bootstrap_servers
        self._unsupported = unsupported or _refuse
        self._baseline = baseline
        self._topics: set[str] = set()
        self._groups: set[str] = set()
        self._is_started = False

    @property
    def bootstrap_servers(self) -> str:
        """The address of the argument."""
        return self._bootstrap_servers

    @property
    def is_running(self) -> bool:
        """True: the test kit does not run the cluster."""
        return True

    @property
    def data_dir(self) -> Path | None:
        """None: it is not known."""
        return None

    @property
    def request_log(self) -> RequestLog:
        """Unsupported."""
        self._unsupported("request_log needs a minibroker: a given cluster does not report its requests")

    @property
    def clients(self) -> list[PushingClient]:
        """Unsupported."""
        self._unsupported("clients needs a minibroker: a given cluster does not show what clients push")

    def start(self) -> Self:
        """Verify that every broker advertises an address of this cluster, and list topics and groups; the second call does nothing.

        Raises:
            ClientError: no broker answers, or the clients of a test would be sent to another cluster.
        """
        if not self._is_started:
            with self._client() as client:
                client.verify_brokers()
            self._is_started = True
            found = _read(self._baseline) or {"topics": self.topics(), "groups": self.groups()}
            if self._baseline is not None:
                self._baseline.write_text(json.dumps(found), encoding="utf-8")
            self._topics, self._groups = set(found["topics"]), set(found["groups"])
        return self

    def stop(self) -> None:
        """Do nothing: the test kit does not run the cluster."""

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def reset(self) -> None:
        """Delete topics and groups created since `start`, and warn of groups that cannot be deleted because they have members.

        Raises:
            BrokerError: a topic could not be deleted.
        """
        for topic in self._new_topics():
            try:
                self.delete_topic(topic)
            except UnknownTopicOrPartition:
                pass  # the test has deleted it
            except KafkaError as error:
                raise BrokerError(f"reset: topic {topic} cannot be deleted: {error}") from error
        if not _becomes_true(lambda: not self._new_topics(), _GONE_TIMEOUT_S):
            raise BrokerError(f"reset: {', '.join(self._new_topics())} deleted {_GONE_TIMEOUT_S:g} s ago, and still there")
        if not _becomes_true(lambda: not self._delete_groups(self._new_groups()), _LEFT_TIMEOUT_S):
            warnings.warn(f"reset: groups still have members: {', '.join(self._new_groups())}: close their consumers", stacklevel=2)

    def _new_topics(self) -> list[str]:
        return [topic for topic in self.topics() if topic not in self._topics and not topic.startswith(KEPT_PREFIX)]

    def _new_groups(self) -> list[str]:
        return [group for group in self.groups() if group not in self._groups]

    def snapshot(self) -> Snapshot:
        """Unsupported."""
        self._unsupported("snapshot() needs a minibroker: a given cluster cannot do it")

    def restore(self, snapshot: Snapshot) -> None:  # noqa: ARG002  there is none
        """Unsupported."""
        self._unsupported("restore() needs a minibroker: a given cluster cannot do it")

    def advance(self, **time: float) -> None:  # noqa: ARG002  unsupported
        """Unsupported."""
        self._unsupported("advance() needs a minibroker: the time of a given cluster cannot be changed")

    def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:  # noqa: ARG002  unsupported
        self._unsupported(f"{name} needs a minibroker: a given cluster cannot do it")


def _read(baseline: Path | None) -> dict[str, list[str]] | None:
    if baseline is None or not baseline.exists():
        return None
    found: dict[str, list[str]] = json.loads(baseline.read_text(encoding="utf-8"))
    return found


def _becomes_true(condition: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def _refuse(reason: str) -> NoReturn:
    raise Unsupported(reason)
