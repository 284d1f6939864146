"""The vocabulary of property tables: name, type, default, valid values and documentation, and how a text becomes a value.

Texts and messages follow Kafka's ConfigDef: numbers and lists are trimmed, booleans are "true" or "false" in any case, and a bad
value is reported as `Invalid value V for configuration NAME: WHY`, so that a client's error reads the same as with Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from minibroker.errors import InvalidConfig

# Types, numbered as DescribeConfigs reports them (KIP-569).
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)

TYPE_NAMES = {
    BOOLEAN: "BOOLEAN",
    STRING: "STRING",
    INT: "INT",
    SHORT: "SHORT",
    LONG: "LONG",
    DOUBLE: "DOUBLE",
    LIST: "LIST",
    CLASS: "CLASS",
    PASSWORD: "PASSWORD",
}

LONG_MAX = 2**63 - 1
_INTEGER_LIMITS = {INT: 2**31, SHORT: 2**15, LONG: 2**63}
_DIGITS_MAX = len(str(2**63))

# The source of a value, numbered as DescribeConfigs reports it (DescribeConfigsResponse.ConfigSource).
SOURCE_DYNAMIC_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_DEFAULT_BROKER = 3
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5
SOURCE_BROKER_LOGGER = 6
SOURCE_CLIENT_METRICS = 7
SOURCE_GROUP = 8

Value = bool | int | float | str | tuple[str, ...] | None


class Check:
    """The valid values of a property: a description in Kafka's words, `[1,...]`, and a function that finds the problem of a value."""

    __slots__ = ("_problem_of", "words")

    def __init__(self, words: str, problem_of: Callable[[Value], str | None]) -> None:
        self.words = words
        self._problem_of = problem_of

    def __call__(self, value: Value) -> str | None:
        """Return the problem of a parsed value, or None."""
        return self._problem_of(value)


Row = tuple[str, int, str | None, Check | None, str]  #: name, type, default, check, documentation


class Property:
    """One property, for validation, DescribeConfigs and the reference page."""

    __slots__ = ("check", "default", "documentation", "is_dynamic", "name", "type")

    def __init__(self, row: Row, *, is_dynamic: bool) -> None:
        self.name, self.type, self.default, self.check, self.documentation = row
        self.is_dynamic = is_dynamic  #: may change while the broker runs, for this broker or for all (DynamicBrokerConfig)

    @property
    def valid_values(self) -> str:
        """The valid values in Kafka's words, `[1,...]`; empty if all values of the type are valid."""
        return "" if self.check is None else self.check.words

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is hidden from DescribeConfigs and from log lines."""
        return self.type == PASSWORD

    def parse(self, text: str | None) -> Value:
        """Parse a text, or raise InvalidConfig with Kafka's message."""
        if text is None:
            return None
        value = _parse(self, text)
        if self.check is not None and (problem := self.check(value)) is not None:
            if isinstance(value, tuple) and problem.startswith("String must"):
                value = next((item for item in value if self.check((item,))), value)  # Kafka names the one bad item of a list
            refuse(self.name, _shown(value), problem)
        return value


_SHOWN_LETTERS: Final = 1_000  #: of a value in an error


def refuse(name: str, value: str | None, problem: str) -> NoReturn:
    """Raise InvalidConfig with the message of Kafka's ConfigException. Long values are shortened."""
    shown = "null" if value is None else value if len(value) <= _SHOWN_LETTERS else f"{value[:_SHOWN_LETTERS]}..."
    raise InvalidConfig(f"Invalid value {shown} for configuration {name}: {problem}")


def format_value(value: Value) -> str | None:
    """Format a value as Kafka prints it: `true`, `10`, `0.5`, `a,b`."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


def _parse(prop: Property, text: str) -> Value:
    trimmed = text.strip()
    kind = prop.type
    if kind == BOOLEAN:
        if trimmed.lower() not in {"true", "false"}:
            refuse(prop.name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind in _INTEGER_LIMITS:
        limit = _INTEGER_LIMITS[kind]
        number = _integer(trimmed)
        if number is None or not -limit <= number < limit:
            refuse(prop.name, text, f"Not a number of type {TYPE_NAMES[kind]}")
        return number
    if kind == DOUBLE:
        try:
            if not trimmed.strip("0123456789.eE+-"):  # Python also accepts what Java does not, and NaN, which passes every limit
                return float(trimmed)
        except ValueError:
            pass
        refuse(prop.name, text, "Not a number of type DOUBLE")
    if kind == LIST:
        return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
    return trimmed


def _integer(text: str) -> int | None:
    """Parse an integer as Java does. Return None for other texts, and for more digits than any type has."""
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > _DIGITS_MAX:
        return None
    number = int(digits.lstrip("0") or "0")
    return -number if text[0] == "-" else number


def _shown(value: Value) -> str | None:
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else format_value(value)


def _java_double(value: float) -> str:
    """Format a number as Java's Double.toString: 0.5, 1.0, 2.147483647E9."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    for digits in range(1, 18):  # the shortest text that reads back as the same number
        shortest = f"{value:.{digits}e}"
        if float(shortest) == value:
            mantissa, _, exponent = shortest.partition("e")
            break
    return f"{mantissa}E{int(exponent)}"


def at_least(minimum: int) -> Check:
    """Accept numbers from `minimum` up."""

    def check(value: Value) -> str | None:
        return f"Value must be at least {minimum}" if isinstance(value, int | float) and value < minimum else None

    return Check(f"[{minimum},...]", check)


def between(minimum: int, maximum: int) -> Check:
    """Accept numbers from `minimum` to `maximum`, inclusive."""

    def check(value: Value) -> str | None:
        if not isinstance(value, int | float):
            return None
        if value < minimum:
            return f"Value must be at least {minimum}"
        return f"Value must be no more than {maximum}" if value > maximum else None

    return Check(f"[{minimum},...,{maximum}]", check)


def one_of(*choices: str) -> Check:
    """Accept one of these words, or a list of them."""

    def check(value: Value) -> str | None:
        items = value if isinstance(value, tuple) else (value,)
        return None if all(item in choices for item in items) else f"String must be one of: {', '.join(choices)}"

    return Check(f"[{', '.join(choices)}]", check)


def one_of_any_case(*choices: str) -> Check:
    """Accept one of these words in any case. `choices` are in upper case."""

    def check(value: Value) -> str | None:
        known = isinstance(value, str) and value.upper() in choices
        return None if known else f"String must be one of (case insensitive): {', '.join(choices)}"

    return Check(f"(case insensitive) [{', '.join(choices)}]", check)


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 or (isinstance(value, int) and 1 <= value <= 9) else "Value must be between 1 and 9 or equal to -1"


#: zlib's levels 1 to 9, or -1 for its default
gzip_level = Check("[1,...,9] or -1", _gzip_level)


_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def throttled_replicas(name: str) -> Check:
    """Accept `*` or `partition:broker` pairs (ThrottledReplicaListValidator)."""

    def check(value: Value) -> str | None:
        items = value if isinstance(value, tuple) else ()
        pairs = [item.split(":") for item in items]
        if items == ("*",) or all(len(pair) == 2 and all(part.isdigit() for part in pair) for pair in pairs):
            return None
        return f"{name} must be the literal '*' or a list of replicas in the following format: {_REPLICAS}"

    return Check(_REPLICAS, check)
