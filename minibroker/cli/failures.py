"""Which failures are for the user, as one line and an exit code; any other is a mistake of ours and keeps its traceback."""

from __future__ import annotations

import click

from minibroker.cli.streams import words_of
from minibroker.client.errors import ClientError, TimedOut, describe
from minibroker.errors import ConfigurationError, CorruptLogError, KafkaError, RequestTimedOut, WireError
from minibroker.spark.errors import SourceError
from minibroker.spark.session import SparkUnavailableError

TIMED_OUT = 124


class TimeOut(click.ClickException):
    """A failure that scripts may want to tell from others."""

    exit_code = TIMED_OUT


def failure_of(error: Exception) -> click.ClickException | None:
    """The failure to show for an error; None when it is not one that a user can do something about."""
    of_pipelines = isinstance(error, SourceError | SparkUnavailableError)
    if not of_pipelines and not isinstance(error, ClientError | KafkaError | ConfigurationError | CorruptLogError | WireError | OSError):
        return None
    if isinstance(error, TimedOut | RequestTimedOut):
        return TimeOut(describe(error))
    if isinstance(error, OSError):
        return click.ClickException(words_of(error))
    return click.ClickException(describe(error))
