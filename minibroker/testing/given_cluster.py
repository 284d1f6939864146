"""A cluster that somebody else runs, such as an Apache Kafka: the same tests are to pass on it (`--minibroker-bootstrap`).

It cannot forget, so `reset` deletes the topics and groups that were not there when the test run began. That asks for a cluster for tests
alone, and for one test at a time (the plugin sees to that between the workers of pytest-xdist). What no Kafka can do raises Unsupported.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.testing.data import Snapshot
from minibroker.testing.errors import BrokerError, Unsupported
from minibroker.testing.request_log import RequestLog
from minibroker.testing.surface import Surface

KEPT_PREFIX: Final = "minibroker-topic-"  #: of topics that are others' to delete: tests of other workers use them
_GONE_TIMEOUT_S: Final = 30.0
_LEFT_TIMEOUT_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.02


class GivenCluster(Surface):
    """A running cluster by its bootstrap servers; `start` notes what is there already, which no reset touches."""

    def __init__(
        self, bootstrap_servers: str, *, unsupported: Callable[[str], NoReturn] | None = None, baseline: Path | None = None
    ) -> None:
        """`unsupported` is called with one line when a test wants what a Kafka cannot do.

        `baseline`: a file that the first of several processes writes, so that all mean the same by what was there.
        """
        self._bootstrap_servers = bootstrap_servers
        self._unsupported = unsupported or _refuse
        self._baseline = baseline
        self._topics: set[str] = set()
        self._groups: set[str] = set()
        self._is_started = False

    @property
    def bootstrap_servers(self) -> str:
        """As given."""
        return self._bootstrap_servers

    @property
    def is_running(self) -> bool:
        """As far as we know."""
        return True

    @property
    def data_dir(self) -> Path | None:
        """Nobody knows."""
        return None

    @property
    def request_log(self) -> RequestLog:
        """Unsupported."""
        self._unsupported("request_log needs a minibroker: a given cluster does not report its requests")

    def start(self) -> Self:
        """Verify that every broker advertises an address of this cluster, and note what is there; once is enough.

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
        """It is not ours to stop."""

    def close(self) -> None:
        """Nothing of ours is open."""

    def reset(self) -> None:
        """Delete topics and groups that came since `start`; a warning tells of groups that cannot be deleted, since they have members.

        Raises:
            BrokerError: a topic would not go.
        """
        for topic in self._new_topics():
            try:
                self.delete_topic(topic)
            except UnknownTopicOrPartition:
                pass  # gone already: a deletion of the test's own
            except KafkaError as error:
                raise BrokerError(f"reset: topic {topic} cannot be deleted: {error}") from error
        if not _becomes(lambda: not self._new_topics(), _GONE_TIMEOUT_S):
            raise BrokerError(f"reset: {', '.join(self._new_topics())} deleted {_GONE_TIMEOUT_S:g} s ago, and still there")
        if not _becomes(lambda: not self._delete_groups(self._new_groups()), _LEFT_TIMEOUT_S):
            warnings.warn(f"reset: groups still have members: {', '.join(self._new_groups())}: close their consumers", stacklevel=2)

    def _new_topics(self) -> list[str]:
        return [topic for topic in self.topics() if topic not in self._topics and not topic.startswith(KEPT_PREFIX)]

    def _new_groups(self) -> list[str]:
        return [group for group in self.groups() if group not in self._groups]

    def snapshot(self) -> Snapshot:
        """Unsupported."""
        self._unsupported("snapshot() needs a minibroker: a given cluster cannot do it")

    def restore(self, snapshot: Snapshot) -> None:  # noqa: ARG002  nobody can have one
        """Unsupported."""
        self._unsupported("restore() needs a minibroker: a given cluster cannot do it")

    def advance(self, **time: float) -> None:  # noqa: ARG002  nobody can do it
        """Unsupported."""
        self._unsupported("advance() needs a minibroker: the time of a given cluster cannot be changed")

    def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:  # noqa: ARG002  nobody can do it
        self._unsupported(f"{name} needs a minibroker: a given cluster cannot do it")


def _read(baseline: Path | None) -> dict[str, list[str]] | None:
    if baseline is None or not baseline.exists():
        return None
    found: dict[str, list[str]] = json.loads(baseline.read_text(encoding="utf-8"))
    return found


def _becomes(is_so: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


def _refuse(reason: str) -> NoReturn:
    raise Unsupported(reason)
