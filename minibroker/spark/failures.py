"""Errors of pipelines, and why Spark failed in one line: the error of Python, Kafka or Spark inside pages of Java.

An error passes through many layers: a Python worker's exception becomes text inside a Java
exception, which causes a failed task, a failed job and a failed query. The useful text is at the
end of the chain, or in the last line of the worker's traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minibroker.errors import BY_CODE


class SourceError(Exception):
    """The base of all pipeline errors; `str(error)` is one line."""


class OptionError(SourceError):
    """An invalid option of `kafka-log`, or one that the files cannot fulfil."""


class ReplayError(SourceError):
    """A replay cannot run, or cannot continue."""


#: the last line of a worker's traceback, for an exception of minibroker: `minibroker.errors.CorruptLogError: 0.log at 5: CRC`
OURS = re.compile(r"^(?P<name>minibroker(?:\.\w+)+): (?P<words>.*)$", re.MULTILINE)
#: the same for any exception: the line after the indented lines of a traceback
PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<name>[\w.]+): ?(?P<words>.*)$", re.MULTILINE)
#: exceptions that only wrap a cause
WRAPPERS = (
    "ExecutionException",
    "InvocationTargetException",
    "RuntimeException",
    "SparkException",
    "StreamingQueryException",
    "UncheckedIOException",
)
#: Spark's prefix with the error class and its suffix with the SQLSTATE: `[TABLE_OR_VIEW_NOT_FOUND] ... SQLSTATE: 42P01; line 1`
CONDITION = re.compile(r"^\[[A-Z_0-9.]+\]\s*")
STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
#: Kafka's Java clients: a part of the message, or the exception's name -> what it means
KAFKA = {
    "No resolvable bootstrap urls": "no broker: the bootstrap server's name cannot be resolved",
    "Timed out waiting for a node assignment": "the broker does not answer (is it running, and is this its address?)",
    "UnknownTopicOrPartitionException": "there is no such topic or partition",
    "Some data may have been lost because they are not available in Kafka any more": "offsets of the range to read no longer exist"
    " (retention, or the topic was deleted and recreated)",
    "OffsetOutOfRangeException": "offsets of the range to read no longer exist (retention, or the topic was recreated)",
}
#: what a failed start leaves in Spark's log; the first match counts
STARTS = (
    (re.compile(r"UnsupportedClassVersionError"), "Spark 4 needs Java 17 or 21: this Java is too old"),
    (re.compile(r"bin/java: (?:No such file|not found)"), "no Java where JAVA_HOME points: Spark needs Java 17 or 21"),
    (
        re.compile(r"(?:unresolved dependency: |UNRESOLVED DEPENDENCIES[\s\S]*?:: )(?P<what>[\w.#;-]+)"),
        "cannot fetch {what}: is a repository of Maven reachable?",
    ),
    (re.compile(r"(?:Caused by: |Exception in thread \"main\" )?[\w.$]*(?:Exception|Error): (?P<what>.+)"), "{what}"),
)


ENDED = "Spark's process ended: was it killed, or out of memory?"


class Cause(NamedTuple):
    """One exception of a chain of causes."""

    name: str  #: the exception's class, without its package
    words: str


def is_sparks(error: BaseException) -> bool:
    """Return whether an error comes from PySpark or from its bridge to Java."""
    return any(kind.__module__.startswith(("pyspark.", "py4j.")) for kind in type(error).__mro__)


class Reason(NamedTuple):
    """Why Spark failed."""

    words: str  #: one line
    is_whole: bool  #: True if Spark's log would add nothing: an error of minibroker, or a mistake in a query


def reason_of(error: BaseException) -> str:
    """Return why a job, a query or Spark itself failed, in one line."""
    return explain(error).words


def explain(error: BaseException) -> Reason:
    """Return why a job, a query or Spark itself failed, and whether the log would say more."""
    causes = list(causes_of(error))
    return _of_python(causes) or _of_kafka(causes) or _of_java(causes) or Reason(type(error).__name__, is_whole=False)


def reason_in_log(log: Path) -> str | None:
    """Return why Spark did not start, from the log of a JVM that stopped early; None if unknown."""
    text = log.read_text(errors="replace") if log.exists() else ""
    for pattern, words in STARTS:
        found = pattern.search(text)
        if found:
            return _one_line(words.format(**found.groupdict()))
    return None


def causes_of(error: BaseException) -> Iterator[Cause]:
    """Yield the causes of an error, from the exception raised down through Java to the first one."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        has_ended = type(error).__module__.startswith("py4j.") and "Trace:" not in str(error)
        yield Cause("", ENDED) if has_ended else Cause(type(error).__name__, str(error))
        return
    try:
        while java is not None:
            yield Cause(java.getClass().getSimpleName(), java.getMessage() or "")
            java = java.getCause()
    except jvm_errors():
        yield Cause("", ENDED)


def jvm_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a failed call to Spark's JVM raises, for example because the JVM is gone."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  PySpark is an extra

    return Py4JError, OSError


def _of_python(causes: list[Cause]) -> Reason | None:
    """Return the last exception of minibroker in a worker or a callback, else of any Python code."""
    for pattern in (OURS, PYTHON):
        for cause in reversed(causes):
            found = list(pattern.finditer(cause.words))
            if found:
                return _of_exception(found[-1]["name"], found[-1]["words"], is_ours=pattern is OURS)
    return None


def _of_exception(name: str, words: str, *, is_ours: bool) -> Reason:
    plain = name.rpartition(".")[2]
    code = next((kind.name for kind in BY_CODE.values() if kind.__name__ == plain), None)
    if code:
        return Reason(f"{_one_line(words)} [{code}]", is_whole=True)
    return Reason(_one_line(words) if is_ours else f"{plain}: {_one_line(words)}", is_whole=is_ours)


def _of_kafka(causes: list[Cause]) -> Reason | None:
    for text, meaning in KAFKA.items():
        if any(text in cause.words or text == cause.name for cause in causes):
            return Reason(meaning, is_whole=False)
    return None


def _of_java(causes: list[Cause]) -> Reason | None:
    """Return the deepest cause that is not only a wrapper."""
    found = [Cause(cause.name, cause.words.strip()) for cause in causes if cause.words]
    chosen = next((cause for cause in reversed(found) if cause.name not in WRAPPERS), found[-1] if found else None)
    if chosen is None:
        return None
    words = _one_line(STATE.sub("", CONDITION.sub("", chosen.words)))
    has_condition = CONDITION.match(chosen.words) is not None
    if has_condition or not chosen.name or chosen.name in WRAPPERS:
        return Reason(words, is_whole=has_condition and "INTERNAL_ERROR" not in chosen.words)
    return Reason(f"{chosen.name}: {words}", is_whole=False)


def _one_line(words: str) -> str:
    return " ".join(words.split())
