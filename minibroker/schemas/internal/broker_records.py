"""Metadata records about nodes: brokers and controllers that register, change and are removed.

RegisterBrokerRecord                          BrokerRegistrationChangeRecord
  v1  in_controlled_shutdown (KIP-841)          v1  in_controlled_shutdown (KIP-841)
  v2  is_migrating_zk_broker (KIP-866)          v2  log_dirs (KIP-858)
  v3  log_dirs (KIP-858)                        v3  cordoned_log_dirs (KIP-1066)
  v4  cordoned_log_dirs (KIP-1066)

Every record is flexible from v0.
"""

from __future__ import annotations

from minibroker.wire.schema import Bool, Int8, Int16, Int32, Int64, String, UInt16, Uuid, field, struct


@struct
class Endpoint:
    """The address of one listener of a node."""

    name: String
    host: String
    port: UInt16
    security_protocol: Int16  #: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL


@struct
class Feature:
    """The levels of a feature that a node supports."""

    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@struct
class RegisterBrokerRecord:
    """A broker has started; broker_epoch is the offset of this record."""

    broker_id: Int32
    is_migrating_zk_broker: Bool = field(since=2, default=False)
    incarnation_id: Uuid  #: of the broker process
    broker_epoch: Int64
    end_points: list[Endpoint]
    features: list[Feature]
    rack: String | None
    fenced: Bool = field(default=True)  #: until the broker has caught up with the metadata log
    in_controlled_shutdown: Bool = field(since=1, default=False)
    log_dirs: list[Uuid] = field(since=3, tag=0, default=())  #: directory.id of each that is online
    cordoned_log_dirs: list[Uuid] | None = field(since=4, tag=1, default=None)  #: null until the first heartbeat


@struct
class BrokerRegistrationChangeRecord:
    """What has changed in a broker's registration; a field at its default has not."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(tag=0, default=0)  #: 1 fenced, -1 unfenced
    in_controlled_shutdown: Int8 = field(since=1, tag=1, default=0)  #: 1 begun
    log_dirs: list[Uuid] = field(since=2, tag=2, default=())
    cordoned_log_dirs: list[Uuid] | None = field(since=3, tag=3, default=None)


@struct
class UnregisterBrokerRecord:
    """A broker was removed."""

    broker_id: Int32
    broker_epoch: Int64


@struct
class FenceBrokerRecord:
    """A broker leaves every in-sync set; BrokerRegistrationChangeRecord has taken its place."""

    id: Int32
    epoch: Int64


@struct
class UnfenceBrokerRecord:
    """A broker may lead again; BrokerRegistrationChangeRecord has taken its place."""

    id: Int32
    epoch: Int64


@struct
class RegisterControllerRecord:
    """A controller has started (KIP-919)."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[Endpoint]
    features: list[Feature]
