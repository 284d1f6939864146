"""DescribeConfigs, API key 32: configs of topics and brokers, and where each value comes from.

v0  is_default
v1  config_source and synonyms (KIP-226)
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  config_type and documentation (KIP-569)
v4  flexible

resource_type  2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group (Kafka's ConfigResource.Type)
config_source  1 topic, 2 one broker, 3 default of all brokers, 4 the broker's file, 5 built-in default, 6 broker logger,
               7 client metrics, 8 group (Kafka's DescribeConfigsResponse.ConfigSource)
config_type    0 unknown, 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bool, Int8, Int16, Int32, ResourceName, String, field, struct

API_KEY = 32
VERSIONS = (0, 4)
ROUTED_BY = AnyBroker()  #: except for configs of one broker, which only that broker knows
AUTHORIZES = (Special("DESCRIBE_CONFIGS of each topic, group or of the cluster"),)
FLEXIBLE_SINCE = 4


@struct
class Resource:
    resource_type: Int8
    resource_name: ResourceName  #: a topic's name, a broker's id, or "" for what all brokers share
    configuration_keys: list[String] | None  #: null asks for every key


@struct
class Request:
    resources: list[Resource]
    include_synonyms: Bool = field(since=1, default=False)
    include_documentation: Bool = field(since=3, default=False)


@struct
class Synonym:
    name: String
    value: String | None
    source: Int8


@struct
class Config:
    name: String
    value: String | None  #: null when sensitive
    read_only: Bool
    is_default: Bool = field(until=0, default=False)  #: neither the topic nor the broker's configuration sets it
    config_source: Int8 = field(since=1, default=-1)
    is_sensitive: Bool
    synonyms: list[Synonym] = field(since=1, default=())  #: every place that sets this key, the one in force first
    config_type: Int8 = field(since=3, default=0)
    documentation: String | None = field(since=3, default="")


@struct
class Result:
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: ResourceName
    configs: list[Config]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    results: list[Result]
