"""Limits of the elements in requests that must be processed as a whole, neither in pieces nor in slices.

Clients stay far below each limit. A request above it is rejected before any work, so that it does not block the loop.
`differences.py` documents them.
"""

from __future__ import annotations

from typing import Final

#: UpdateFeatures: a cluster has six features, and all levels change together or none.
FEATURE_UPDATES_MAX: Final = 100

#: ListGroups: groups have fewer than ten states, and five types.
LIST_GROUPS_FILTERS_MAX: Final = 100

#: ListConfigResources: there are five types of resources.
RESOURCE_TYPES_MAX: Final = 100

#: DescribeClientQuotas: an entity has three types, each of which a filter may name once.
QUOTA_COMPONENTS_MAX: Final = 100

#: AlterClientQuotas: entries, the types of their entities and their operations together. Tools alter one entity at a time.
QUOTA_ALTERATIONS_MAX: Final = 4_000

#: AlterUserScramCredentials: each upsertion computes three keyed hashes. Tools change one user at a time.
SCRAM_CHANGES_MAX: Final = 1_000

#: CreateAcls, DeleteAcls: entries and filters that are served in one turn. A filter is compared with every entry.
ACLS_IN_PIECE: Final = 200
ACL_FILTERS_IN_PIECE: Final = 5
ACL_FILTERS_MAX: Final = 1_000

#: Client telemetry: subscriptions (resources of client metrics) that are in force, and the work of comparing one client with all of them.
TELEMETRY_SUBSCRIPTIONS_MAX: Final = 100
TELEMETRY_MATCHING_STEPS_MAX: Final = 500_000

#: PushTelemetry: resources, scopes, metrics and data points of a push that are kept. A Java consumer pushes about 100.
TELEMETRY_ELEMENTS_MAX: Final = 20_000

#: PushTelemetry: pushes that are being decoded or wait for that. Their payloads are in memory; further pushes are throttled.
TELEMETRY_PUSHES_MAX: Final = 32

#: PushTelemetry: memory of the latest values of one client instance, and of all together.
TELEMETRY_BYTES_OF_CLIENT_MAX: Final = 8 * 1024 * 1024
TELEMETRY_BYTES_MAX: Final = 64 * 1024 * 1024

#: Letters of pushed metrics that one scrape shows: the labels of a client are written for each of its values.
TELEMETRY_TEXT_MAX: Final = 64 * 1024 * 1024

#: CreateDelegationToken: tokens of a cluster, and those that one user may request. Each is a record of the metadata log until it expires.
DELEGATION_TOKENS_MAX: Final = 10_000
DELEGATION_TOKENS_OF_REQUESTER_MAX: Final = 2_000

#: CreateDelegationToken: renewers of a token, and the characters of a principal. All of them are in its record.
TOKEN_RENEWERS_MAX: Final = 100
TOKEN_PRINCIPAL_SIZE_MAX: Final = 1_000

#: AlterConfigs, IncrementalAlterConfigs, DescribeConfigs: configs of one resource. Apache Kafka 4.3.1 knows 344 of a broker.
CONFIGS_OF_RESOURCE_MAX: Final = 1_000

#: Heartbeats of consumer, share and streams groups: topic names, owned partitions and what a topology has, together. The answer depends on
#: all of them, and each is compared with what the group has.
HEARTBEAT_ELEMENTS_MAX: Final = 10_000

#: StreamsGroupHeartbeat: subtopologies of a topology. All are assigned together. Applications have a few dozen.
STREAMS_SUBTOPOLOGIES_MAX: Final = 500

#: StreamsGroupHeartbeat: tasks of all subtopologies, one for each partition that it reads. The assignor places all of them in one turn.
STREAMS_TASKS_MAX: Final = 5_000

#: AddPartitionsToTxn: a transaction gets all of the partitions or none of them.
TRANSACTION_PARTITIONS_MAX: Final = 10_000

#: Elements that name the same topic, group or resource. They must be processed together, and clients name each once.
REPEATED_MAX: Final = 1_000

#: ShareFetch, ShareAcknowledge: topics and partitions of a request, and partitions of one share session.
SHARE_PARTITIONS_MAX: Final = 5_000

#: ShareFetch, ShareAcknowledge: topics, partitions, acknowledged ranges and their types together. All are checked before
#: any is done. A partition has 2,000 acquired records by default, and a member acknowledges the 500 of a poll.
SHARE_ELEMENTS_MAX: Final = 50_000
