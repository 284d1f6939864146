"""Topics that the regular expressions of groups match, found in slices so that no expression blocks the event loop.

    matching(pattern)   result
    little work         the topics, immediately
    much work           the topics of the last resolution, None for a new expression; the work continues in later turns, and a later
                        call returns its result, as in Apache Kafka, where the next heartbeat of the member does

A result is kept for each expression together with the topic names that were matched. When topics
change, only new names are matched. At most MAX_EXPRESSIONS results with MAX_NAMES names are kept.
The least recently used ones are dropped first, and computed again when needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from minibroker.clock import Clock
from minibroker.regular_expression import STEPS_A_SLICE, Regex

MAX_EXPRESSIONS: Final = 256
MAX_NAMES: Final = 1_000_000  #: about 40 MB
LONGEST_NAME: Final = 249  #: bytes of a topic name


class MatchingTopics(NamedTuple):
    """The topics that an expression matched, sorted, and the metadata version of that result."""

    names: tuple[str, ...]
    version: int


def check_topic_expression(pattern: str) -> None:
    """Raise InvalidRegularExpression unless `pattern` can be matched against topic names."""
    Regex(pattern, longest_text_bytes=LONGEST_NAME)


class TopicExpressions:
    """The expressions of all groups."""

    def __init__(
        self, clock: Clock, names: Callable[[], Iterable[str]], version: Callable[[], int], *, resolves_later: bool = False
    ) -> None:
        """Create the table. With `resolves_later` all work counts as much work, as in Apache Kafka."""
        self._clock = clock
        self._resolves_later = resolves_later
        self._names = names
        self._version = version
        self._snapshot: tuple[int, frozenset[str]] = (-1, frozenset())  #: the topic names at a version; results share it
        self._results: OrderedDict[str, _Result] = OrderedDict()  #: least recently used first
        self._unfinished: OrderedDict[str, _Resolution] = OrderedDict()  #: the first one continues next

    def matching(self, pattern: str) -> MatchingTopics | None:
        """Return the topics that `pattern` matches: those of an older version while work continues, None before the first result."""
        result = self._results.get(pattern)
        if result is not None:
            self._results.move_to_end(pattern)
            if result.topics.version == self._version():
                return result.topics
        if pattern not in self._unfinished and len(self._unfinished) < MAX_EXPRESSIONS:
            resolution = _Resolution(pattern, result, self._current_names(), self._version())
            if not self._resolves_later and resolution.advance():
                return self._keep(resolution)
            if not self._unfinished:
                self._clock.call_later_ms(0, self._go_on)
            self._unfinished[pattern] = resolution
        return None if result is None else result.topics

    def _current_names(self) -> frozenset[str]:
        version = self._version()
        if self._snapshot[0] != version:
            names = frozenset(self._names())
            self._snapshot = version, self._snapshot[1] if names == self._snapshot[1] else names
        return self._snapshot[1]

    def _go_on(self) -> None:
        """Run one slice of the first resolution, then continue with the next one."""
        pattern, resolution = self._unfinished.popitem(last=False)
        if resolution.advance():
            self._keep(resolution)
        else:
            self._unfinished[pattern] = resolution
        if self._unfinished:
            self._clock.call_later_ms(0, self._go_on)

    def _keep(self, resolution: _Resolution) -> MatchingTopics:
        result = self._results[resolution.pattern] = resolution.result()
        self._results.move_to_end(resolution.pattern)
        while len(self._results) > 1 and (len(self._results) > MAX_EXPRESSIONS or self._count_names() > MAX_NAMES):
            self._results.popitem(last=False)
        return result.topics

    def _count_names(self) -> int:
        return sum(map(len, {id(each.examined): each.examined for each in self._results.values()}.values()))


class _Result(NamedTuple):
    topics: MatchingTopics
    examined: frozenset[str]  #: the names that the expression was matched against


class _Resolution:
    """The work of matching one expression against topic names."""

    __slots__ = ("_matching", "_names", "_regex", "_rest", "_version", "pattern")

    def __init__(self, pattern: str, before: _Result | None, names: frozenset[str], version: int) -> None:
        self.pattern = pattern
        self._regex = Regex(pattern, longest_text_bytes=LONGEST_NAME)
        self._names = names
        self._version = version
        self._matching = [] if before is None else [name for name in before.topics.names if name in names]
        self._rest: Iterator[str] = iter(names if before is None else names - before.examined)

    def advance(self) -> bool:
        """Match names until one slice of work is done; return whether all names are."""
        regex, steps = self._regex, 0
        for name in self._rest:
            if regex.matches(name):
                self._matching.append(name)
            steps += regex.steps(name)
            if steps >= STEPS_A_SLICE:
                return False
        return True

    def result(self) -> _Result:
        return _Result(MatchingTopics(tuple(sorted(self._matching)), self._version), self._names)
