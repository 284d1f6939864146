"""Convert failures for the user to one line and an exit code. Any other exception is a defect and keeps its traceback."""

from __future__ import annotations

import click

from minibroker.cli.kafka_tools.arguments import UsageError
from minibroker.cli.kafka_tools.arguments import words_of as tool_words_of
from minibroker.cli.streams import words_of
from minibroker.client.errors import ClientError, TimedOut, describe
from minibroker.errors import ConfigurationError, CorruptLogError, KafkaError, RequestTimedOut, WireError
from minibroker.spark.failures import SourceError
from minibroker.spark.session import SparkUnavailableError

TIMED_OUT = 124


class TimeOut(click.ClickException):
    """A time-out, which has its own exit code for scripts."""

    exit_code = TIMED_OUT


def failure_of(error: Exception) -> click.ClickException | None:
    """Return the failure to show for an error; None for a defect."""
    of_pipelines = isinstance(error, SourceError | SparkUnavailableError)
    if not of_pipelines and not isinstance(error, ClientError | KafkaError | ConfigurationError | CorruptLogError | WireError | OSError):
        return None
    if isinstance(error, TimedOut | RequestTimedOut):
        return TimeOut(describe(error))
    if isinstance(error, OSError):
        return click.ClickException(words_of(error))
    return click.ClickException(describe(error))


def tool_failure(error: Exception) -> str | None:
    """Return the line that one of Kafka's tools prints for an error; None for a defect."""
    if isinstance(error, UsageError):
        return str(error)
    if isinstance(error, KafkaError):
        return f"Error: {tool_words_of(error)} [{error.name}]"
    failure = failure_of(error)
    return None if failure is None else f"Error: {failure.message}"
