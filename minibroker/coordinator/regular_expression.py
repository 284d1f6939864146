"""Regular expressions of clients, in RE2's syntax, matched in linear time: no expression makes the broker hang.

Python's `re` backtracks: `(a+)+b` takes it for ever on thirty letters. Here an expression is a machine that is in several states at once;
sets of states that were met are kept with where each character leads from them, so that a match is mostly one look-up a character.

The syntax is RE2's, which Kafka uses (RE2/J) for filters (KIP-1152) and subscriptions (KIP-848): regular_expression_syntax.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minibroker.coordinator.regular_expression_syntax import Choice, Look, Node, Repeat, Sequence, Test, parse
from minibroker.errors import InvalidRegularExpression

MAX_STATES: Final = 5_000
_MAX_KEPT: Final = 2_000  #: sets of states


class Regex:
    """An expression; `matches` asks for the whole text."""

    def __init__(self, pattern: str) -> None:
        """InvalidRegularExpression: it is none, or too large."""
        self._states: list[_State] = []
        tree = parse(pattern)
        self._start = self._add(tree, self._state(_State(is_end=True)))
        self._has_looks = any(each.look is not None for each in self._states)
        self._kept: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` is what the expression describes."""
        current = self._closure((self._start,), text, 0)
        for position, character in enumerate(text, 1):
            if not current:
                return False
            current = self._step(current, character, text, position)
        return any(self._states[each].is_end for each in current)

    def _step(self, current: frozenset[int], character: str, text: str, position: int) -> frozenset[int]:
        if self._has_looks:
            return self._closure(self._after(current, character), text, position)
        key = (current, character)
        following = self._kept.get(key)
        if following is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            following = self._kept[key] = self._closure(self._after(current, character), text, position)
        return following

    def _after(self, current: frozenset[int], character: str) -> Iterable[int]:
        for index in current:
            state = self._states[index]
            if state.test is not None and state.test(character):
                yield state.targets[0]

    def _closure(self, states: Iterable[int], text: str, position: int) -> frozenset[int]:
        """With all that is reached without a character."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            index = waiting.pop()
            if index in found:
                continue
            state = self._states[index]
            if state.look is not None and not state.look(text, position):
                continue
            found.add(index)
            if state.test is None:
                waiting += state.targets
        return frozenset(found)

    # The machine

    def _state(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise InvalidRegularExpression("the expression is too large")
        self._states.append(state)
        return len(self._states) - 1

    def _add(self, node: Node, target: int) -> int:
        """The states of `node`, which lead to `target`; the first of them."""
        if isinstance(node, Sequence):
            for each in reversed(node.nodes):
                target = self._add(each, target)
            return target
        if isinstance(node, Choice):
            return self._state(_State(targets=[self._add(each, target) for each in node.nodes]))
        if isinstance(node, Repeat):
            return self._add_repeat(node, target)
        return self._state(_State(targets=[target], test=node.test, look=node.look))

    def _add_repeat(self, node: Repeat, target: int) -> int:
        if node.most is None:
            loop = self._state(_State(targets=[target]))
            self._states[loop].targets.append(self._add(node.node, loop))
            first = loop
        else:
            first = target
            for _ in range(node.most - node.least):
                first = self._state(_State(targets=[target, self._add(node.node, first)]))
        for _ in range(node.least):
            first = self._add(node.node, first)
        return first


class _State:
    """With `test` it takes a character; with `look` it is passed where that is true; else it is passed."""

    __slots__ = ("is_end", "look", "targets", "test")

    def __init__(
        self, *, targets: list[int] | None = None, test: Test | None = None, look: Look | None = None, is_end: bool = False
    ) -> None:
        self.targets = targets or []
        self.test = test
        self.look = look
        self.is_end = is_end
