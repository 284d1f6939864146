"""Metadata records about settings: configs, features, quotas and producer ids.

All of them have only v0, which is flexible.
"""

from __future__ import annotations

from minibroker.wire.schema import Bool, Float64, Int8, Int16, Int32, Int64, String, field, struct


@struct
class ConfigRecord:
    """One config key of one resource."""

    resource_type: Int8  #: 2 topic, 4 broker, 16 client metrics, 32 group (Kafka's ConfigResource.Type)
    resource_name: String
    name: String
    value: String | None  #: null takes the key away


@struct
class FeatureLevelRecord:
    """The finalized level of a feature; the first record of a log is that of metadata.version, so this record always has v0."""

    name: String
    feature_level: Int16  #: 0 takes the feature away


@struct
class QuotaEntity:
    """One part of whom a quota is for."""

    entity_type: String  #: user, client-id or ip
    entity_name: String | None  #: null for the default of that type


@struct
class ClientQuotaRecord:
    """One quota of a user, client id or address."""

    entity: list[QuotaEntity]
    key: String
    value: Float64
    remove: Bool  #: takes the quota away; value is of no meaning then


@struct
class ProducerIdsRecord:
    """A block of producer ids is handed to a broker."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64  #: the first id of the block after this one
