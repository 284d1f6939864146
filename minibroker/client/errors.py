"""What a client cannot do, in one line for its user: what failed, where, and what to do about it.

An error code in a response is not here: it is a `minibroker.errors.KafkaError`, with its own code and name.
"""

from __future__ import annotations

from minibroker.errors import BY_CODE, KafkaError, UnknownServerError, UnknownTopicOrPartition

#: Kafka's own words speak of servers and of one partition, where a user mostly misspelt a topic
_PLAINER = {UnknownTopicOrPartition.code: "there is no such topic or partition"}


class ClientError(Exception):
    """The client could not do its work; `str(error)` is one line."""


class BrokerUnreachable(ClientError):
    """No connection could be made, or it broke. Worth another try elsewhere."""


class NotAKafkaBroker(ClientError):
    """Something answered, and not with Kafka's protocol."""


class WrongCluster(ClientError):
    """An address leads to another cluster than the one that was asked first."""


class UnsupportedByBroker(ClientError):
    """The broker serves no version of an API that we know, or not the one that is needed."""


class TopicReplaced(ClientError):
    """The topic was deleted and created anew under the same name: its offsets mean nothing any more."""


class TimedOut(ClientError):
    """The time given by the user is over."""


def refusal(code: int, what: str, message: str | None = None) -> KafkaError | None:
    """The error of a response as an exception that says what it is about; None for code 0."""
    if code == 0:
        return None
    kind = BY_CODE.get(code, UnknownServerError)
    words = message or kind.__doc__ or kind.name
    if words == kind.__doc__:
        words = _PLAINER.get(code, words)
    if code not in BY_CODE:
        words = f"error code {code}, which this client does not know. {message or ''}".rstrip()
    return kind(f"{what}: {words}")


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise the error of a response, if there is one."""
    error = refusal(code, what, message)
    if error is not None:
        raise error


def describe(error: BaseException) -> str:
    """An error in the words for a user; Kafka's name of its code, for which one can search, comes last."""
    if isinstance(error, KafkaError):
        return f"{error} [{error.name}]"
    return str(error) or type(error).__name__
