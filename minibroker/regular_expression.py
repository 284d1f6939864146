r"""Regular expressions of clients: the syntax of RE2, as in Kafka (RE2/J), matched by Google's RE2 in linear time.

Linear time alone is not enough: an expression of 30 letters can have 10,000 instructions, each of
which may run for each byte of a text.

    limit                 bounds
    MAX_MEMORY_BYTES      the instructions of one expression (about 10,000), and the states that matching keeps
    MAX_UNICODE_CLASSES   the time to compile: a class such as \pL takes 35 us, an expression of 32,767 bytes holds 10,000 of them
    MAX_STEPS             the time to match one text, at 10 ns a step: about 40 ms

Callers that match many texts add up `Regex.steps`, and let the event loop run after STEPS_A_SLICE
of them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from minibroker.errors import InvalidRegularExpression

MAX_MEMORY_BYTES: Final = 256 * 1024
MAX_UNICODE_CLASSES: Final = 500
MAX_STEPS: Final = 4_000_000
STEPS_A_SLICE: Final = 500_000  #: at most 5 ms
_STEPS_A_CALL: Final = 1_000  #: the cost of a call with any expression: 8 us

_QUOTED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_HUGE_COUNT: Final = re.compile(r"\{(?:[0-9]+,)?[0-9]{9,}(?:,[0-9]*)?\}")


class Regex:
    """A compiled expression."""

    __slots__ = ("_compiled", "_program_size")

    def __init__(self, pattern: str, *, longest_text_bytes: int = 0) -> None:
        """Compile `pattern` for texts of up to `longest_text_bytes`.

        Raises:
            InvalidRegularExpression: the pattern breaks RE2's syntax or is too large.
        """
        import re2  # noqa: PLC0415  a broker without expressions does not need it

        _check(pattern)
        try:
            self._compiled: Any = re2.compile(pattern, options=_options(re2))
        except re2.error as error:
            reason = error.args[0]
            raise InvalidRegularExpression(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
        self._program_size: int = self._compiled.programsize
        if self._program_size * longest_text_bytes > MAX_STEPS:
            raise InvalidRegularExpression(f"the expression is too large: it has {self._program_size} instructions")

    def steps(self, text: str) -> int:
        """Return an upper bound of the work of `matches`."""
        return _STEPS_A_CALL + self._program_size * _bytes_at_most(text)

    def matches(self, text: str) -> bool:
        """Return whether the expression matches the whole of `text`.

        Raises:
            InvalidRegularExpression: the expression is too large for a text of this size.
        """
        if self.steps(text) > MAX_STEPS:
            raise InvalidRegularExpression(
                f"the expression has {self._program_size} instructions: too large for a text of {len(text)} characters"
            )
        return self._compiled.fullmatch(text) is not None


def _check(pattern: str) -> None:
    """Reject syntax that RE2 accepts and RE2/J does not, and expressions that take long to compile."""
    unquoted = _QUOTED.sub("", pattern)
    escapes = _ESCAPE.findall(unquoted)
    if "C" in escapes:
        raise InvalidRegularExpression(r"\C is not supported")
    if _HUGE_COUNT.search(_ESCAPE.sub("", unquoted)):
        raise InvalidRegularExpression("invalid repetition size")  # RE2 takes it as a literal
    if escapes.count("p") + escapes.count("P") > MAX_UNICODE_CLASSES:
        raise InvalidRegularExpression(f"the expression has more than {MAX_UNICODE_CLASSES} Unicode classes")


def _bytes_at_most(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


@cache
def _options(re2: Any) -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 would print them to standard error
    options.never_capture = True  # without groups RE2 matches a thousand times faster in the worst case
    options.max_mem = MAX_MEMORY_BYTES
    return options
