"""Chains of exceptions as Spark makes them, and the one line that they come to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minibroker.spark.failures import explain, is_sparks, reason_in_log, reason_of

WORKER = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 2044, in main
    process()
  File "/x/reader.py", line 100, in read
    raise CorruptLogError(...)
{last}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def failed(*chain: tuple[str, str | None]) -> Any:
    """An error that carries Java's, whose causes are these, the outermost first."""
    java = None
    for name, words in reversed(chain):
        java = SimpleNamespace(
            getClass=lambda name=name: SimpleNamespace(getSimpleName=lambda: name),
            getMessage=lambda words=words: words,
            getCause=lambda cause=java: cause,
        )
    error = RuntimeError("pages of Java")
    error.java_exception = java  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (
            [("SparkException", WORKER.format(last="minibroker.errors.CorruptLogError: 0.log at 5: the CRC is wrong"))],
            "0.log at 5: the CRC is wrong",
        ),
        (
            [
                ("StreamingQueryException", "[STREAM_FAILED] Query"),
                ("SparkException", WORKER.format(last="minibroker.errors.MessageTooLarge: t-0: big")),
            ],
            "t-0: big [MESSAGE_TOO_LARGE]",
        ),
        ([("SparkException", WORKER.format(last="ZeroDivisionError: division by zero"))], "ZeroDivisionError: division by zero"),
        (
            [("SparkException", "Job aborted"), ("TimeoutException", "Timed out waiting for a node assignment. Call: listOffsets")],
            "the broker does not answer (is it running, and is this its address?)",
        ),
        (
            [("ExecutionException", "x"), ("UnknownTopicOrPartitionException", "This server does not host this topic-partition.")],
            "there is no such topic or partition",
        ),
        (
            [
                (
                    "AnalysisException",
                    "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.\nVerify. SQLSTATE: 42P01; line 1 pos 14;\n'Project",
                )
            ],
            "The table `x` cannot be found. Verify.",
        ),
        ([("SparkException", "Job aborted"), ("IOException", "No space left on device")], "IOException: No space left on device"),
        ([("ParseException", "\n[PARSE_SYNTAX_ERROR] Syntax error at 'SELEC'. SQLSTATE: 42601")], "Syntax error at 'SELEC'."),
        ([("SparkException", "Job 3 cancelled"), ("RuntimeException", None)], "Job 3 cancelled"),
        ([("NullPointerException", None)], "RuntimeError"),
    ],
)
def test_reason(chain: list[tuple[str, str | None]], reason: str) -> None:
    assert reason_of(failed(*chain)) == reason


def test_what_needs_a_log() -> None:
    assert explain(failed(("SparkException", WORKER.format(last="minibroker.errors.CorruptLogError: x")))).is_whole
    assert explain(failed(("AnalysisException", "[UNRESOLVED_COLUMN] x"))).is_whole
    assert not explain(failed(("SparkException", "[INTERNAL_ERROR] x"))).is_whole
    assert not explain(failed(("SparkException", WORKER.format(last="ZeroDivisionError: x")))).is_whole
    assert not explain(failed(("IOException", "No space left on device"))).is_whole


def test_reason_of_what_has_no_java_in_it() -> None:
    assert reason_of(ValueError("plain")) == "ValueError: plain"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "...\njava.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled",
            "Spark 4 needs Java 17 or 21: this Java is too old",
        ),
        (
            "/x/bin/spark-class: line 71: /nowhere/bin/java: No such file or directory",
            "no Java where JAVA_HOME points: Spark needs Java 17 or 21",
        ),
        (
            'WARN x\nException in thread "main" org.apache.spark.SparkException: With master yarn, HADOOP_CONF_DIR must be set.\n\tat x',
            "With master yarn, HADOOP_CONF_DIR must be set.",
        ),
        (
            'x\nException in thread "main" java.lang.RuntimeException: [unresolved dependency: com.nobody#nothing;1: not found]',
            "cannot fetch com.nobody#nothing;1: is a repository of Maven reachable?",
        ),
        ("nothing of interest", None),
    ],
)
def test_reason_in_log(tmp_path: Path, log: str, reason: str | None) -> None:
    (tmp_path / "log").write_text(log)
    assert reason_in_log(tmp_path / "log") == reason
    assert reason_in_log(tmp_path / "absent") is None


def test_whose_an_error_is() -> None:
    protocol = pytest.importorskip("py4j.protocol")
    assert is_sparks(protocol.Py4JError("x"))
    assert not is_sparks(ValueError("x"))
    silent = protocol.Py4JError("An error occurred while calling o1.collect")
    assert explain(silent) == ("Spark's process ended: was it killed, or out of memory?", False)
