r"""The syntax of RE2 as a tree.

    . [abc] [^a-z] [[:alpha:]] \d \D \s \S \w \W \pL \PL \p{Lu}      one character; classes but \p are of ASCII
    \t \n \r \f \v \a \x7F \x{1F600} \101 \. \Q...\E               themselves
    xy x|y x* x+ x? x{2} x{2,} x{2,5}, lazy with ? behind                up to 1,000 times
    (x) (?:x) (?P<name>x) (?<name>x) (?i) (?s) (?m) (?U) (?i-s:x)
    ^ $ \A \z \b \B

Not in RE2, so refused: look-ahead, look-behind, references, possessive repetition. Not here: scripts such as \p{Greek}.
A `{` that begins no repetition is itself, and so is a `]` outside a class.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker.errors import InvalidRegularExpression

MAX_REPEAT: Final = 1000
MAX_DEPTH: Final = 100

Test = Callable[[str], bool]  #: of one character
Look = Callable[[str, int], bool]  #: of a text at a place between characters


class One(NamedTuple):
    """A character that passes `test`, or a place between two that passes `look`."""

    test: Test | None = None
    look: Look | None = None


class Sequence(NamedTuple):
    """One after the other."""

    nodes: list[Node]


class Choice(NamedTuple):
    """One of them."""

    nodes: list[Node]


class Repeat(NamedTuple):
    """From `least` to `most` times; None: any number."""

    node: Node
    least: int
    most: int | None


Node = One | Sequence | Choice | Repeat


def _ascii(test: Test) -> Test:
    return lambda character: character < "\x80" and test(character)


def _is_word(character: str) -> bool:
    return character == "_" or (character < "\x80" and character.isalnum())


_PERL: Final[dict[str, Test]] = {"d": _ascii(str.isdigit), "s": lambda each: each in "\t\n\f\r ", "w": _is_word}
_POSIX: Final[dict[str, Test]] = {
    "alnum": _ascii(str.isalnum),
    "alpha": _ascii(str.isalpha),
    "ascii": lambda each: each < "\x80",
    "blank": lambda each: each in "\t ",
    "cntrl": lambda each: each < " " or each == "\x7f",
    "digit": _ascii(str.isdigit),
    "graph": lambda each: "!" <= each <= "~",
    "lower": _ascii(str.islower),
    "print": lambda each: " " <= each <= "~",
    "punct": lambda each: "!" <= each <= "~" and not each.isalnum(),
    "space": lambda each: each in "\t\n\v\f\r ",
    "upper": _ascii(str.isupper),
    "word": _is_word,
    "xdigit": lambda each: each in "0123456789abcdefABCDEF",
}
_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_MINOR: Final = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfso"}
_CATEGORIES: Final = frozenset(major + minor for major, minors in _MINOR.items() for minor in ("", *minors))


def _is_boundary(text: str, position: int) -> bool:
    before = position > 0 and _is_word(text[position - 1])
    return before != (position < len(text) and _is_word(text[position]))


def _is_start(_: str, position: int) -> bool:
    return position == 0


def _is_end(text: str, position: int) -> bool:
    return position == len(text)


def _is_line_start(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def _is_line_end(text: str, position: int) -> bool:
    return position == len(text) or text[position] == "\n"


_LOOKS: Final[dict[str, Look]] = {
    "A": _is_start,
    "z": _is_end,
    "b": _is_boundary,
    "B": lambda text, position: not _is_boundary(text, position),
}


def parse(pattern: str) -> Node:
    """The tree of an expression; InvalidRegularExpression."""
    return _Parser(pattern).parse()


class _Parser:
    """Recursive descent: choice, sequence, repetition, atom. Flags hold to the end of their group."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._depth = 0
        self._flags: frozenset[str] = frozenset()

    def parse(self) -> Node:
        tree = self._choice()
        if self._position < len(self._pattern):
            raise self._error("a ) without its (")
        return tree

    def _error(self, why: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"{why}, at {self._position} of {self._pattern!r}")

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._position)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._position += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._position >= len(self._pattern):
            raise self._error("the end comes too early")
        self._position += 1
        return self._pattern[self._position - 1]

    def _until(self, end: str) -> str:
        stop = self._pattern.find(end, self._position)
        if stop < 0:
            raise self._error(f"no {end}")
        text = self._pattern[self._position : stop]
        self._position = stop + len(end)
        return text

    # Structure

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error("too deep")
        flags = self._flags
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        self._flags = flags
        self._depth -= 1
        return branches[0] if len(branches) == 1 else Choice(branches)

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)":
            if self._take("\\Q"):
                nodes += self._quoted()
            else:
                nodes.append(self._atom())
            while (repeated := self._repetition(nodes)) is not None:
                nodes[-1] = repeated
        return Sequence(nodes)

    def _quoted(self) -> list[Node]:
        text = self._until("\\E") if "\\E" in self._pattern[self._position :] else self._rest()
        return [self._literal(each) for each in text]

    def _rest(self) -> str:
        text, self._position = self._pattern[self._position :], len(self._pattern)
        return text

    def _repetition(self, nodes: list[Node]) -> Repeat | None:
        bounds = self._bounds()
        if bounds is None:
            return None
        if not nodes or isinstance(nodes[-1], Repeat):
            raise self._error("nothing to repeat")
        self._take("?")
        return Repeat(nodes[-1], *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        stop = self._pattern.find("}", self._position)
        if not self._peek("{") or stop < 0:
            return None
        least, comma, most = self._pattern[self._position + 1 : stop].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            return None
        self._position = stop + 1
        low, high = int(least), int(most) if most else None if comma else int(least)
        if low > MAX_REPEAT or (high is not None and not low <= high <= MAX_REPEAT):
            raise self._error("repeated too often")
        return low, high

    # Atoms

    def _atom(self) -> Node:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return One(test=self._class())
            case ".":
                return One(test=_any if "s" in self._flags else _any_but_newline)
            case "^":
                return One(look=_is_line_start if "m" in self._flags else _is_start)
            case "$":
                return One(look=_is_line_end if "m" in self._flags else _is_end)
            case "*" | "+" | "?":
                raise self._error("nothing to repeat")
            case "\\":
                look = _LOOKS.get(self._pattern[self._position : self._position + 1])
                if look is not None:
                    self._position += 1
                    return One(look=look)
                found = self._escape()
                return self._literal(found) if isinstance(found, str) else One(test=found)
        return self._literal(character)

    def _literal(self, character: str) -> One:
        return One(test=self._folded(lambda each: each == character))

    def _folded(self, test: Test) -> Test:
        if "i" not in self._flags:
            return test
        return lambda each: test(each) or test(each.lower()) or test(each.upper())

    def _group(self) -> Node:
        if not self._take("?"):
            return self._closed(self._choice())
        if self._take("P<") or self._take("<"):
            name = self._until(">")
            if not name or not all(_is_word(each) for each in name):
                raise self._error("the name of a group")
            return self._closed(self._choice())
        before = self._flags
        while not (self._peek(")") or self._peek(":")):
            self._flag()
        if self._take(")"):
            return Sequence([])  # the flags hold for the rest of the group around
        self._position += 1
        node = self._closed(self._choice())
        self._flags = before
        return node

    def _flag(self) -> None:
        names: set[str] = set(self._flags)
        is_off = self._take("-")
        flag = self._next()
        if flag not in "imsU":
            raise self._error("no such flag")
        while True:
            if is_off:
                names.discard(flag)
            else:
                names.add(flag)
            if self._position >= len(self._pattern) or self._pattern[self._position] not in "imsU":
                break
            flag = self._next()
        self._flags = frozenset(names)

    def _closed(self, node: Node) -> Node:
        if not self._take(")"):
            raise self._error("a ( without its )")
        return Sequence([node])

    def _escape(self) -> str | Test:
        """A character, or a class."""
        letter = self._next()
        if letter in "pP":
            return _inverted(self._category()) if letter == "P" else self._category()
        if letter.lower() in _PERL:
            return _PERL[letter] if letter in _PERL else _inverted(_PERL[letter.lower()])
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "x":
            return self._code(self._until("}") if self._take("{") else self._next() + self._next(), 16)
        if letter in "01234567":
            following = self._pattern[self._position : self._position + 2]
            digits = next(following[:count] for count in (2, 1, 0) if all(each in "01234567" for each in following[:count]))
            if letter != "0" and not digits:
                raise self._error("a reference")
            self._position += len(digits)
            return self._code(letter + digits, 8)
        if letter < "\x80" and not letter.isalnum():
            return letter
        raise self._error("no such escape")

    def _code(self, digits: str, base: int) -> str:
        try:
            return chr(int(digits, base))
        except (ValueError, OverflowError):
            raise self._error("no such character") from None

    def _category(self) -> Test:
        name = self._until("}") if self._take("{") else self._next()
        is_inverted = name.startswith("^")
        name = name.removeprefix("^")
        if name not in _CATEGORIES:
            raise self._error(f"the class {name!r} is not known")
        test: Test = lambda each: unicodedata.category(each).startswith(name)  # noqa: E731  a test like the others
        return _inverted(test) if is_inverted else test

    # Classes

    def _class(self) -> Test:
        is_inverted = self._take("^")
        tests: list[Test] = []
        while not tests or not self._peek("]"):
            if self._take("[:"):
                tests.append(self._posix())
                continue
            low = self._member()
            if not isinstance(low, str):
                tests.append(low)
            elif self._peek("-") and not self._peek("-]"):
                self._position += 1
                high = self._member()
                if not isinstance(high, str) or high < low:
                    raise self._error("no such range")
                tests.append(_between(low, high))
            else:
                tests.append(_between(low, low))
        self._position += 1
        found = self._folded(lambda each: any(test(each) for test in tests))
        return _inverted(found) if is_inverted else found

    def _member(self) -> str | Test:
        character = self._next()
        return self._escape() if character == "\\" else character

    def _posix(self) -> Test:
        name = self._until(":]")
        test = _POSIX.get(name.removeprefix("^"))
        if test is None:
            raise self._error(f"the class {name!r} is not known")
        return _inverted(test) if name.startswith("^") else test


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _any(_: str) -> bool:
    return True


def _any_but_newline(character: str) -> bool:
    return character != "\n"


def _inverted(test: Test) -> Test:
    return lambda character: not test(character)


def _between(low: str, high: str) -> Test:
    return lambda character: low <= character <= high
