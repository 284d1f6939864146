"""Errors of a broker under test, in one line: what failed, where, and what to do. Kafka's own errors are `minibroker.errors.KafkaError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minibroker.errors import ConfigurationError, KafkaError


class BrokerError(Exception):
    """The broker did not start, is not running, or did not do in time what a test waited for."""


class Unsupported(BrokerError):  # noqa: N818  named for what happened
    """Only minibroker can do it, and this is a given cluster (`--minibroker-bootstrap`)."""


@contextmanager
def one_line_error(what: str) -> Iterator[None]:
    """Raise errors of Kafka, of the configuration and of the file system as a BrokerError of one line that starts with `what`."""
    try:
        yield
    except KafkaError as error:
        text = str(error)
        raise BrokerError(f"{what}: {type(error).name}{f': {text}' if text else ''}") from error
    except (ConfigurationError, OSError) as error:  # data that cannot be emptied, copied or opened
        raise BrokerError(f"{what}: {error}") from error
