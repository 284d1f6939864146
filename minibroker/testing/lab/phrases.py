"""What a test says of faults, word by word: `inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders").times(3)`.

The words before the last one only say what; the last one (once, times, on_call, probability, always) says how often, and does it.
`Made` is what comes of it: a Fault, or one that is awaited.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")


class Phrase(Generic[Made]):
    """A fault that lacks how often it happens; until that is said nothing happens, and a warning tells who forgets it."""

    def __init__(self, make: Callable[[dict[str, Any]], Made]) -> None:
        self._make = make
        self._is_said = False

    def __del__(self) -> None:
        if not self._is_said:
            warnings.warn(
                "a fault that never happens: it lacks .once(), .times(n), .on_call(n), .probability(p) or .always()", stacklevel=2
            )

    def _how_often(self, often: dict[str, Any]) -> Made:
        self._is_said = True
        return self._make(often)

    def once(self) -> Made:
        """The first call."""
        return self.times(1)

    def times(self, count: int) -> Made:
        """The first `count` calls."""
        return self._how_often({"times": count})

    def on_call(self, number: int) -> Made:
        """Call `number` alone, counted from 1."""
        return self._how_often({"call": number})

    def probability(self, probability: float, *, seed: int = 1) -> Made:
        """Each call with a probability from 0 to 1; the same calls with the same seed."""
        return self._how_often({"probability": probability, "seed": seed})

    def always(self) -> Made:
        """Every call, until it is removed."""
        return self._how_often({})


class FaultPhrases(Generic[Made]):
    """The kinds of faults. `api` is Kafka's name, "Produce"; a fault is for all requests of it, unless other arguments choose some.

    topic, partition, client_id, group, transactional_id: what the request is about; of several partitions only the one is refused
    node: the broker that is asked, of several.
    """

    def _made(self, command: str, arguments: dict[str, Any]) -> Made:
        """Do a command that makes a fault."""
        raise NotImplementedError

    def _phrase(self, kind: str, api: str, scope: dict[str, Any], **more: Any) -> Phrase[Made]:
        rule = {"kind": kind, "api": api} | {name: value for name, value in (more | scope).items() if value is not None}
        return Phrase(lambda often: self._made("faults.inject", {"rule": rule | {"often": often}}))

    def inject(self, api: str, error: str, *, after: bool = False, **scope: str | int | None) -> Phrase[Made]:
        """Answer with an error, by Kafka's name of it; nothing is done, or with `after` all is and the answer says that it failed."""
        return self._phrase("error", api, scope, error=error, after=after or None)

    def delay(self, api: str, ms: int, *, when: str = "after", **scope: str | int | None) -> Phrase[Made]:
        """Answer `ms` milliseconds later by the broker's clock; `when="before"`: do the work later, too."""
        return self._phrase("delay", api, scope, ms=ms, when=when)

    def throttle(self, api: str, ms: int, **scope: str | int | None) -> Phrase[Made]:
        """Tell the client in throttle_time_ms to wait, and read nothing of it for that time, as Kafka does above a quota."""
        return self._phrase("throttle", api, scope, ms=ms)

    def disconnect(self, api: str, *, when: str = "before", **scope: str | int | None) -> Phrase[Made]:
        """Cut the connection instead of answering, "before" or "after" the work is done."""
        return self._phrase("disconnect", api, scope, when=when)

    def tear(self, api: str, *, size: int, **scope: str | int | None) -> Phrase[Made]:
        """Send `size` bytes of the answer and cut the connection."""
        return self._phrase("tear", api, scope, size=size)

    def silence(self, api: str, *, when: str = "before", **scope: str | int | None) -> Phrase[Made]:
        """Never answer, "before" or "after" the work is done; the connection stays."""
        return self._phrase("silence", api, scope, when=when)

    def storage(self, topic: str | None = None, partition: int | None = None, *, on: str, error: str) -> Phrase[Made]:
        """Let calls of the file system on a partition's files fail, on "write", "read", "sync" or "open", with "ENOSPC", "EIO", ...

        What a failing disk says takes the log directory offline, with all that is in it, until the broker is started again or `heal`.
        """
        asked = {"topic": topic, "partition": partition, "on": on, "error": error}
        known = {name: value for name, value in asked.items() if value is not None}
        return Phrase(lambda often: self._made("faults.storage", known | {"often": often}))
