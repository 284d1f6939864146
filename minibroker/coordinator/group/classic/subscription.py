"""What a consumer of a classic group told its leader: the topics that it subscribed to.

    ConsumerProtocolSubscription    version: int16, topics: array of string, and more that version 0 does not know

Every version begins as version 0 does. Source: ConsumerProtocol of Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from minibroker.errors import WireError
from minibroker.wire.compiled import decoder
from minibroker.wire.schema import String, struct

CONSUMER: Final = "consumer"  #: the protocol type of groups whose members speak it
_VERSION_SIZE: Final = 2


@struct
class Subscription:
    """As far as version 0 goes."""

    topics: list[String]


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """The topics; None where the bytes are no subscription."""
    if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
        return None
    try:
        subscription, _ = decoder(Subscription, 0, flexible=False)(metadata, _VERSION_SIZE)
    except WireError:
        return None
    return frozenset(subscription.topics)
