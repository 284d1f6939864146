"""What a broker under test cannot do, in one line: what, where, what to do. Answers of Kafka itself are `minibroker.errors.KafkaError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minibroker.errors import ConfigurationError, KafkaError


class BrokerError(Exception):
    """The broker did not start, is not running, or what was waited for did not come."""


class Unsupported(BrokerError):  # noqa: N818  named for what happened
    """Only a broker of ours can do that: this is a given cluster (`--minibroker-bootstrap`)."""


@contextmanager
def told(what: str) -> Iterator[None]:
    """Say in one line what was to be done, and why it was not; BrokerErrors say so themselves."""
    try:
        yield
    except KafkaError as error:
        text = str(error)
        raise BrokerError(f"{what}: {type(error).name}{f': {text}' if text else ''}") from error
    except (ConfigurationError, OSError) as error:  # of data that cannot be emptied, copied or opened
        raise BrokerError(f"{what}: {error}") from error
