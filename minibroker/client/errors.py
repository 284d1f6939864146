"""Errors of a client, each with one line for its user: what failed, where, and what to do about it.

The error code of a response is a `minibroker.errors.KafkaError`, with its code and name.
"""

from __future__ import annotations

from enum import Enum

from minibroker.errors import BY_CODE, KafkaError, SecurityDisabled, UnknownServerError, UnknownTopicOrPartition

#: Kafka's message mentions servers and one partition, but most users have misspelled a topic
_MISSING = UnknownTopicOrPartition.code
_AUTHORIZER_HINT = "set authorizer.class.name, or start it with 'minibroker serve --super-user NAME'"


class ClientError(Exception):
    """An operation of the client failed; `str(error)` is one line."""


class BrokerUnreachable(ClientError):
    """A connection could not be made, or it broke. Another broker may work."""


class NotAKafkaBroker(ClientError):
    """The peer does not speak Kafka's protocol."""


class SecurityPart(Enum):
    """The part of TLS or SASL because of which a connection failed, as `minibroker doctor` shows it."""

    PROTOCOL = "protocol"  #: only one of listener and client has TLS, or SASL, or they have no common version of TLS
    CA = "CA"  #: an authority that the client does not trust
    HOST_NAME = "host name"
    EXPIRED = "certificate"  #: out of date
    CLIENT_CERTIFICATE = "client certificate"  #: missing or rejected
    MECHANISM = "mechanism"  #: a SASL mechanism that the listener does not offer
    PASSWORD = "password"  # noqa: S105  not a secret; also for a wrong user or token


class SecurityFailed(ClientError):
    """TLS or SASL ended a connection. Other attempts fail as well until `part` is corrected.

    Args:
        part: what to correct.
        message: the error for the user.
    """

    def __init__(self, part: SecurityPart, message: str) -> None:
        super().__init__(message)
        self.part = part


class WrongCluster(ClientError):
    """An address leads to another cluster than the first one."""


class UnsupportedByBroker(ClientError):
    """The broker serves no version of an API that this client knows, or not the required version."""


class TopicReplaced(ClientError):
    """The topic was deleted and created again under the same name. Its old offsets are invalid."""


class TimedOut(ClientError):
    """The user's time limit has passed."""


def refusal(code: int, subject: str, message: str | None = None) -> KafkaError | None:
    """Convert the error code of a response to an exception.

    Args:
        code: the error code.
        subject: what the error is about, such as "topic orders".
        message: the message of the response. Default: the description of the error code.

    Returns:
        The exception; None for code 0.
    """
    if code == 0:
        return None
    kind = BY_CODE.get(code, UnknownServerError)
    text = message or kind.__doc__ or kind.name
    if code == _MISSING and text == kind.__doc__:
        return kind(f"{subject} does not exist")
    if code not in BY_CODE:
        text = f"error code {code}, which this client does not know. {message or ''}".rstrip()
    return kind(f"{subject}: {text}")


def check(code: int, subject: str, message: str | None = None) -> None:
    """Raise the error code of a response, if it is not 0.

    Args:
        code: the error code.
        subject: what the error is about, such as "topic orders".
        message: the message of the response. Default: the description of the error code.

    Raises:
        KafkaError: the code is not 0.
    """
    error = refusal(code, subject, message)
    if error is not None:
        raise error


def describe(error: BaseException) -> str:
    """Return the message of an error for a user. It ends with Kafka's name of the error, for which users can search."""
    if isinstance(error, SecurityDisabled):
        return f"{str(error).removesuffix('.')}: {_AUTHORIZER_HINT} [{error.name}]"
    if isinstance(error, KafkaError):
        return f"{error} [{error.name}]"
    return str(error) or type(error).__name__
