"""A client whose broker is going to be killed, and does not come back before the client has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from minibroker.client.client import Client
from minibroker.client.errors import BrokerUnreachable, ClientError
from minibroker.client.transport import Deadline

T = TypeVar("T")


class GivingUp(Client):
    """A connection that breaks is the end of it (ClientError), not a reason to ask again until the time is over.

    So its time-out may be long, and costs a test nothing at each kill.
    """

    def retrying(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        def only_here() -> T:
            try:
                return attempt()
            except BrokerUnreachable as error:
                raise ClientError(str(error)) from error

        return super().retrying(only_here, deadline)
