"""Which broker a request must be sent to. Each schema declares it as `ROUTED_BY`, next to `VERSIONS`.

    PartitionLeader     the leader of each partition that the request names
    Coordinator         the coordinator of one group, transactional id or share partition
    CoordinatorOfEach   the coordinator of each key in a list
    EachCoordinator     every broker, for the keys that it coordinates
    EachBroker          every broker, for the replicas in its log directories
    OneBroker           the broker whose replicas the request is about
    Controller          the controller; any broker forwards the request to it
    AnyBroker           any broker

Field names are those of the schema's Request and Response.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class CoordinatorType(Enum):
    """Kafka's FindCoordinatorRequest.CoordinatorType; the value is `key_type` in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class PartitionLeader(NamedTuple):
    """The leader of each partition. Other brokers answer NOT_LEADER_OR_FOLLOWER for the partition."""

    any_replica: bool = False  #: followers answer as well
    fences: bool = False  #: partitions of the request carry `current_leader_epoch`, which a replica checks before leadership
    names_leader_since: int | None = None  #: first version whose response names the new leader (KIP-951); None: no version does


class Coordinator(NamedTuple):
    """The coordinator of one key. Other brokers answer NOT_COORDINATOR."""

    type: CoordinatorType
    key: str | None  #: the request's field with the key, which may be null; None: the key is composed of several fields


class CoordinatorOfEach(NamedTuple):
    """The coordinator of each key in a list. Other brokers answer NOT_COORDINATOR for the key."""

    type: CoordinatorType
    keys: str  #: the request's list
    results: str  #: the response's list, with one element for each key
    key: str | None = None  #: the field with the key in elements of `keys`; None: the elements are the keys
    single_key: str | None = None  #: the request's field with the key in versions that have only one


class EachCoordinator(NamedTuple):
    """Every broker, for the keys that it coordinates. A client that needs all keys sends the request to all brokers."""

    type: CoordinatorType
    results: str  #: the response's list, with one element for each key
    key: str  #: the field with the key in these elements


class EachBroker(NamedTuple):
    """Every broker, for the replicas in its own log directories. A client that needs all replicas sends the request to all brokers."""

    results: str  #: the response's list of log directories


class OneBroker:
    """The broker whose replicas the request is about, which only the caller knows."""

    __slots__ = ()


class Controller:
    """The controller. A client may send the request to any broker, which forwards the request (KafkaApis.forwardToController)."""

    __slots__ = ()


class AnyBroker:
    """Any broker: all of them can answer."""

    __slots__ = ()


Routing = PartitionLeader | Coordinator | CoordinatorOfEach | EachCoordinator | EachBroker | OneBroker | Controller | AnyBroker
