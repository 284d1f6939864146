"""How often a fault happens: which of its calls it hits.

{}                                 every call
{"times": 3}                       the first three
{"call": 2}                        the second call alone, counted from 1
{"probability": 0.1, "seed": 1}    calls at random; the same ones with the same seed
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import Any, Final

from minibroker.testing.options import BrokerError

_KINDS: Final = ({"times"}, {"call"}, {"probability"}, {"probability", "seed"}, set[str]())


class FaultFrequency:
    """Counts the calls of a fault and decides which ones are hit."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raise BrokerError if `spec` is not one of the forms above."""
        if set(spec) not in _KINDS:
            raise BrokerError(f"often must have times, call, or probability with seed, or be empty for always, got {dict(spec)}")
        self.spec: Final = dict(spec)
        self.calls = 0  #: counted so far
        self.hits = 0
        self._times = _whole(spec, "times")
        self._call = _whole(spec, "call")
        self._probability = _probability(spec)
        self._random = random.Random(spec.get("seed", 1))  # noqa: S311  repeatable by its seed
        self._lock = threading.Lock()  #: worker threads call the file system as well

    @property
    def is_over(self) -> bool:
        """Whether no further call will be hit."""
        return (self._times is not None and self.hits >= self._times) or (self._call is not None and self.calls >= self._call)

    def hits_now(self) -> bool:
        """Count a call and return whether it is hit."""
        with self._lock:
            is_over = self.is_over
            self.calls += 1
            if is_over or (self._call is not None and self.calls != self._call):
                return False
            if self._probability is not None and self._random.random() >= self._probability:
                return False
            self.hits += 1
            return True


def _whole(spec: Mapping[str, Any], name: str) -> int | None:
    value = spec.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BrokerError(f"{name} must be at least 1, got {value!r}")
    return value


def _probability(spec: Mapping[str, Any]) -> float | None:
    value = spec.get("probability")
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BrokerError(f"probability must be between 0 and 1, got {value!r}")
    if not isinstance(spec.get("seed", 1), int):
        raise BrokerError(f"seed must be an integer, got {spec['seed']!r}")
    return float(value)
