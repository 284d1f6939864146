"""One request for each API and way of naming resources, for comparisons of authorization: what is refused, hidden and shown.

Topics: `seen` and `secret` exist, `seen-none` and `secret-none` do not. Groups are `g` and `h`, transactional ids `x` and `y`.
`round` makes the names of topics that a request creates or deletes unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k11_join_group as k11
from minibroker.schemas import k12_heartbeat as k12
from minibroker.schemas import k13_leave_group as k13
from minibroker.schemas import k14_sync_group as k14
from minibroker.schemas import k15_describe_groups as k15
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k21_delete_records as k21
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k23_offset_for_leader_epoch as k23
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k25_add_offsets_to_txn as k25
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k27_write_txn_markers as k27
from minibroker.schemas import k28_txn_offset_commit as k28
from minibroker.schemas import k29_describe_acls as k29
from minibroker.schemas import k30_create_acls as k30
from minibroker.schemas import k31_delete_acls as k31
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k34_alter_replica_log_dirs as k34
from minibroker.schemas import k35_describe_log_dirs as k35
from minibroker.schemas import k37_create_partitions as k37
from minibroker.schemas import k42_delete_groups as k42
from minibroker.schemas import k43_elect_leaders as k43
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k45_alter_partition_reassignments as k45
from minibroker.schemas import k46_list_partition_reassignments as k46
from minibroker.schemas import k47_offset_delete as k47
from minibroker.schemas import k48_describe_client_quotas as k48
from minibroker.schemas import k49_alter_client_quotas as k49
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.schemas import k55_describe_quorum as k55
from minibroker.schemas import k57_update_features as k57
from minibroker.schemas import k60_describe_cluster as k60
from minibroker.schemas import k61_describe_producers as k61
from minibroker.schemas import k65_describe_transactions as k65
from minibroker.schemas import k66_list_transactions as k66
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k69_consumer_group_describe as k69
from minibroker.schemas import k74_list_config_resources as k74
from minibroker.schemas import k75_describe_topic_partitions as k75
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.schemas import k77_share_group_describe as k77
from minibroker.schemas import k78_share_fetch as k78
from minibroker.schemas import k79_share_acknowledge as k79
from minibroker.schemas import k83_initialize_share_group_state as k83
from minibroker.schemas import k84_read_share_group_state as k84
from minibroker.schemas import k85_write_share_group_state as k85
from minibroker.schemas import k86_delete_share_group_state as k86
from minibroker.schemas import k87_read_share_group_state_summary as k87
from minibroker.schemas import k88_streams_group_heartbeat as k88
from minibroker.schemas import k89_streams_group_describe as k89
from minibroker.schemas import k90_describe_share_group_offsets as k90
from minibroker.schemas import k91_alter_share_group_offsets as k91
from minibroker.schemas import k92_delete_share_group_offsets as k92

TOPICS = ("seen", "secret")  #: that exist
NAMES = ("seen", "secret", "seen-none", "secret-none")
GROUPS = ("g", "h")
OTHER_MEMBER = "tqOq6pKTRtyfbWTSmVXuIg"
MEMBER = "8Z2zj2BRS2mHYHHgsZPrgA"
UNKNOWN_ID = UUID("8e2cfe9c-3d16-4a6b-9d1c-8a4a9c3f0a11")
SHARE_KEY = "g:8Z2zj2BRS2mHYHHgsZPrgA:0"  #: of a share coordinator


class Setting(NamedTuple):
    """What a request needs to know of the broker that it is sent to."""

    ids: Mapping[str, UUID]  #: of the topics
    round: int
    log_dir: str = "/tmp/elsewhere"  # noqa: S108  no folder of ours


class Case(NamedTuple):
    """A request at a version."""

    name: str
    request: Any  #: returns the request for a Setting
    version: int | None = None


def batch(*, transactional: bool = False) -> bytes:
    options: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True} if transactional else {}
    return bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v", ())], **options))


def named(kind: Any, part: Callable[[], Any], names: tuple[str, ...] = NAMES, field: str = "name", parts: str = "partitions") -> list[Any]:
    return [kind(**{field: name, parts: [part()]}) for name in names]


def with_ids(kind: Any, part: Callable[[], Any], at: Setting, parts: str = "partitions") -> list[Any]:
    return [kind(topic_id=each, **{parts: [part()]}) for each in (at.ids["seen"], at.ids["secret"], UNKNOWN_ID)]


def _fetch_part() -> k01.Partition:
    return k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)


def _fetch(topics: list[Any], **changes: Any) -> k01.Request:
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}
    return k01.Request(**(fields | changes))


def _records() -> Iterator[Case]:
    def produce(topics: list[Any], **changes: Any) -> k00.Request:
        fields: dict[str, Any] = {"acks": 1, "timeout_ms": 1000, "topic_data": topics}
        return k00.Request(**(fields | changes))

    def part() -> k00.Partition:
        return k00.Partition(index=0, records=batch())

    def in_transaction() -> k00.Partition:
        return k00.Partition(index=0, records=batch(transactional=True))

    yield Case("Produce by name", lambda _: produce(named(k00.Topic, part, parts="partition_data")), 12)
    yield Case("Produce by id", lambda at: produce(with_ids(k00.Topic, part, at, "partition_data")), 13)
    yield Case("Produce without answer", lambda _: produce(named(k00.Topic, part, parts="partition_data"), acks=0), 9)
    hidden = ("secret", "secret-none", "seen-none")
    for transactional_id in ("x", "y", None):
        yield Case(
            f"Produce in transaction {transactional_id}",
            lambda _, own=transactional_id: produce(named(k00.Topic, in_transaction, hidden, parts="partition_data"), transactional_id=own),
            11,
        )
    yield Case("Fetch by name", lambda _: _fetch(named(k01.Topic, _fetch_part, field="topic")), 12)
    yield Case("Fetch by id", lambda at: _fetch(with_ids(k01.Topic, _fetch_part, at)), 16)
    yield Case(
        "Fetch of a replica", lambda _: _fetch(named(k01.Topic, _fetch_part, ("seen-none", "secret-none"), "topic"), replica_id=7), 12
    )
    yield Case(
        "ListOffsets", lambda _: k02.Request(replica_id=-1, topics=named(k02.Topic, lambda: k02.Partition(partition_index=0, timestamp=-2)))
    )
    yield Case(
        "OffsetForLeaderEpoch",
        lambda _: k23.Request(topics=named(k23.Topic, lambda: k23.Partition(partition=0, leader_epoch=0), field="topic")),
    )
    yield Case(
        "DeleteRecords",
        lambda _: k21.Request(topics=named(k21.Topic, lambda: k21.Partition(partition_index=0, offset=0)), timeout_ms=1000),
    )
    yield Case("DescribeProducers", lambda _: k61.Request(topics=named(k61.Topic, lambda: 0, parts="partition_indexes")))


def _topics() -> Iterator[Case]:
    asks: dict[str, Any] = {"include_topic_authorized_operations": True}
    by_name = [k03.Topic(name=name) for name in NAMES]
    yield Case("Metadata of all", lambda _: k03.Request(topics=None, allow_auto_topic_creation=False, **asks))
    yield Case("Metadata v0 of all", lambda _: k03.Request(topics=[]), 0)
    yield Case("Metadata v0 by name", lambda _: k03.Request(topics=[k03.Topic(name=name) for name in TOPICS]), 0)
    yield Case("Metadata of none", lambda _: k03.Request(topics=[], allow_auto_topic_creation=False))
    yield Case("Metadata by name", lambda _: k03.Request(topics=by_name, allow_auto_topic_creation=False, **asks))
    yield Case(
        "Metadata v10",
        lambda _: k03.Request(topics=by_name, allow_auto_topic_creation=False, include_cluster_authorized_operations=True, **asks),
        10,
    )
    yield Case(
        "Metadata by id",
        lambda at: k03.Request(
            topics=[k03.Topic(topic_id=each, name=None) for each in (*at.ids.values(), UNKNOWN_ID)], allow_auto_topic_creation=False, **asks
        ),
        12,
    )
    yield Case("DescribeTopicPartitions", lambda _: k75.Request(topics=[k75.Topic(name=name) for name in NAMES]))
    yield Case("DescribeTopicPartitions of all", lambda _: k75.Request(topics=[]))
    yield Case("DescribeTopicPartitions of the first", lambda _: k75.Request(topics=[], response_partition_limit=1))
    yield Case(
        "DescribeTopicPartitions from a hidden one",
        lambda _: k75.Request(topics=[], cursor=k75.Cursor(topic_name="secret", partition_index=0)),
    )


def _changes_of_topics() -> Iterator[Case]:
    def new(at: Setting, what: str) -> list[k19.Topic]:
        names = [f"{name}-{what}-{at.round}" for name in TOPICS] + ["seen", "secret"]
        return [k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names]

    yield Case("CreateTopics", lambda at: k19.Request(topics=new(at, "new")))
    yield Case("CreateTopics validated", lambda at: k19.Request(topics=new(at, "valid"), validate_only=True))
    yield Case(
        "DeleteTopics by name",
        lambda at: k20.Request(topic_names=[f"{name}-gone-{at.round}" for name in TOPICS] + ["seen-none", "secret-none"], timeout_ms=5000),
        5,
    )
    yield Case(
        "DeleteTopics by id",
        lambda at: k20.Request(
            topics=[k20.Topic(topic_id=each) for each in (at.ids["seen-lost"], at.ids["secret-lost"], UNKNOWN_ID)], timeout_ms=5000
        ),
    )
    yield Case(
        "Metadata that creates",
        lambda at: k03.Request(topics=[k03.Topic(name=f"{name}-auto-{at.round}") for name in TOPICS], allow_auto_topic_creation=True),
    )
    yield Case(
        "CreatePartitions",
        lambda _: k37.Request(
            topics=[k37.Topic(name=name, count=3, assignments=None) for name in NAMES], timeout_ms=1000, validate_only=True
        ),
    )


def _groups() -> Iterator[Case]:
    def commit() -> k08.Partition:
        return k08.Partition(partition_index=0, committed_offset=1, committed_metadata="")

    for group in GROUPS:
        yield Case(
            f"OffsetCommit {group}", lambda _, own=group: k08.Request(group_id=own, member_id="", topics=named(k08.Topic, commit)), 9
        )
        yield Case(
            f"OffsetCommit by id {group}",
            lambda at, own=group: k08.Request(group_id=own, member_id="", topics=with_ids(k08.Topic, commit, at)),
            10,
        )
        yield Case(
            f"OffsetFetch v7 {group}",
            lambda _, own=group: k09.Request(group_id=own, topics=named(k09.Topic, lambda: 0, parts="partition_indexes")),
            7,
        )
        yield Case(f"OffsetFetch v7 of all {group}", lambda _, own=group: k09.Request(group_id=own, topics=None), 7)
        yield Case(
            f"OffsetDelete {group}",
            lambda _, own=group: k47.Request(
                group_id=own, topics=named(k47.Topic, lambda: k47.Partition(partition_index=0), ("seen-none", "secret-none"))
            ),
        )
        yield Case(f"Heartbeat {group}", lambda _, own=group: k12.Request(group_id=own, generation_id=1, member_id="m"))
        yield Case(f"LeaveGroup {group}", lambda _, own=group: k13.Request(group_id=own, members=[k13.Member(member_id="m")]))
        yield Case(
            f"JoinGroup {group}",
            lambda _, own=group: k11.Request(
                group_id=own, session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[k11.Protocol(name="p", metadata=b"")]
            ),
        )
        yield Case(
            f"SyncGroup {group}",
            lambda _, own=group: k14.Request(
                group_id=own, generation_id=1, member_id="m", protocol_type="consumer", protocol_name="p", assignments=[]
            ),
        )
        yield Case(
            f"SyncGroup without protocol {group}",
            lambda _, own=group: k14.Request(group_id=own, generation_id=1, member_id="m", assignments=[]),
        )


def _several_groups() -> Iterator[Case]:
    yield Case(
        "OffsetFetch of groups",
        lambda _: k09.Request(
            groups=[k09.Group(group_id=each, topics=named(k09.GroupTopic, lambda: 0, parts="partition_indexes")) for each in GROUPS]
        ),
        9,
    )
    yield Case(
        "OffsetFetch by id",
        lambda at: k09.Request(groups=[k09.Group(group_id="g", topics=with_ids(k09.GroupTopic, lambda: 0, at, "partition_indexes"))]),
        10,
    )
    yield Case("OffsetFetch of all", lambda _: k09.Request(groups=[k09.Group(group_id=each, topics=None) for each in GROUPS]), 9)
    for key_type, keys in ((0, GROUPS), (1, ("x", "y")), (2, (SHARE_KEY,))):
        yield Case(
            f"FindCoordinator {key_type}",
            lambda _, kind=key_type, all_keys=keys: k10.Request(key_type=kind, coordinator_keys=list(all_keys)),
        )
        if key_type < 2:
            yield Case(
                f"FindCoordinator v3 {key_type}", lambda _, kind=key_type, all_keys=keys: k10.Request(key_type=kind, key=all_keys[1]), 3
            )
    yield Case("DescribeGroups", lambda _: k15.Request(groups=list(GROUPS), include_authorized_operations=True))
    yield Case("ConsumerGroupDescribe", lambda _: k69.Request(group_ids=list(GROUPS), include_authorized_operations=True))
    yield Case("ShareGroupDescribe", lambda _: k77.Request(group_ids=list(GROUPS), include_authorized_operations=True))
    yield Case("StreamsGroupDescribe", lambda _: k89.Request(group_ids=list(GROUPS), include_authorized_operations=True))
    yield Case("ListGroups", lambda _: k16.Request())
    yield Case("DeleteGroups", lambda _: k42.Request(groups_names=["g-none", "h-none"]))


def _heartbeats() -> Iterator[Case]:
    for group in ("g-new", "h-new"):
        for names in (["seen"], ["seen", "secret"], ["secret-none"], None):
            yield Case(
                f"ConsumerGroupHeartbeat {group} {names}",
                lambda _, own=group, topics=names: k68.Request(
                    group_id=f"{own}-c",
                    member_id=MEMBER,
                    member_epoch=0 if topics else 7,
                    rebalance_timeout_ms=1000,
                    subscribed_topic_names=topics,
                    topic_partitions=[],
                ),
            )
            if names is not None:
                yield Case(
                    f"ShareGroupHeartbeat {group} {names}",
                    lambda _, own=group, topics=names: k76.Request(
                        group_id=f"{own}-s", member_id=MEMBER, member_epoch=0, subscribed_topic_names=topics
                    ),
                )
            yield Case(f"StreamsGroupHeartbeat {group} {names}", lambda _, own=group, topics=names: streams_heartbeat(f"{own}-k", topics))


def streams_heartbeat(group: str, names: list[str] | None, internal: tuple[str, ...] = ()) -> k88.Request:
    subtopology = k88.Subtopology(
        subtopology_id="0",
        source_topics=names or [],
        source_topic_regex=[],
        state_changelog_topics=[k88.TopicInfo(name=each, partitions=0, replication_factor=0, topic_configs=[]) for each in internal],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    joining: dict[str, Any] = {
        "topology": k88.Topology(epoch=0, subtopologies=[subtopology]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        "client_tags": [],
        "rebalance_timeout_ms": 1000,
    }
    return k88.Request(
        group_id=group,
        member_id=MEMBER,
        member_epoch=0 if names else 7,
        endpoint_information_epoch=0,
        **(joining if names else {}),
    )


def _share_groups() -> Iterator[Case]:
    def offsets() -> k91.Partition:
        return k91.Partition(partition_index=0, start_offset=0)

    for group in ("g-none", "h-none"):
        yield Case(
            f"AlterShareGroupOffsets {group}",
            lambda _, own=group: k91.Request(group_id=own, topics=named(k91.Topic, offsets, field="topic_name")),
        )
        yield Case(
            f"DeleteShareGroupOffsets {group}",
            lambda _, own=group: k92.Request(group_id=own, topics=[k92.Topic(topic_name=name) for name in NAMES]),
        )
        yield Case(
            f"ShareAcknowledge {group}",
            lambda at, own=group: k79.Request(
                group_id=own,
                member_id=MEMBER,
                share_session_epoch=1,
                topics=with_ids(k79.Topic, lambda: k79.Partition(partition_index=0, acknowledgement_batches=[]), at),
            ),
        )
        yield Case(
            f"ShareFetch {group}",
            lambda at, own=group: k78.Request(
                group_id=own,
                member_id=OTHER_MEMBER,
                share_session_epoch=0,
                max_wait_ms=0,
                min_bytes=0,
                max_records=1,
                batch_size=1,
                topics=with_ids(k78.Topic, lambda: k78.Partition(partition_index=0, acknowledgement_batches=[]), at),
                forgotten_topics_data=[],
            ),
        )
    yield Case(
        "DescribeShareGroupOffsets",
        lambda _: k90.Request(
            groups=[k90.Group(group_id=each, topics=named(k90.Topic, lambda: 0, field="topic_name")) for each in ("g-none", "h-none")]
        ),
    )
    yield Case(
        "DescribeShareGroupOffsets of all",
        lambda _: k90.Request(groups=[k90.Group(group_id=each, topics=None) for each in ("g-none", "h-none")]),
    )
    states: dict[str, tuple[Any, Callable[[], Any]]] = {
        "InitializeShareGroupState": (k83, lambda: k83.Partition(partition=0, state_epoch=0, start_offset=0)),
        "ReadShareGroupState": (k84, lambda: k84.Partition(partition=0, leader_epoch=0)),
        "WriteShareGroupState": (
            k85,
            lambda: k85.Partition(partition=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[]),
        ),
        "DeleteShareGroupState": (k86, lambda: k86.Partition(partition=0)),
        "ReadShareGroupStateSummary": (k87, lambda: k87.Partition(partition=0, leader_epoch=0)),
    }
    for name, (schema, part) in states.items():
        yield Case(
            name,
            lambda _, api=schema, each=part: api.Request(group_id="", topics=[api.Topic(topic_id=UNKNOWN_ID, partitions=[each()])]),
        )


def _transactions() -> Iterator[Case]:
    for transactional_id in ("x", "y", None):
        yield Case(
            f"InitProducerId {transactional_id}",
            lambda _, own=transactional_id: k22.Request(transactional_id=own, transaction_timeout_ms=10_000),
        )
    for transactional_id in ("x", "y"):
        yield Case(
            f"AddPartitionsToTxn {transactional_id}",
            lambda _, own=transactional_id: k24.Request(
                v3_and_below_transactional_id=own,
                v3_and_below_producer_id=99,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[k24.Topic(name=name, partitions=[0]) for name in TOPICS],
            ),
            3,
        )
        for group in GROUPS:
            yield Case(
                f"AddOffsetsToTxn {transactional_id} {group}",
                lambda _, own=transactional_id, of=group: k25.Request(transactional_id=own, producer_id=99, producer_epoch=0, group_id=of),
                3,
            )
            yield Case(
                f"TxnOffsetCommit {transactional_id} {group}",
                lambda _, own=transactional_id, of=group: k28.Request(
                    transactional_id=own,
                    group_id=of,
                    producer_id=99,
                    producer_epoch=0,
                    topics=named(
                        k28.Topic,
                        lambda: k28.Partition(partition_index=0, committed_offset=1, committed_metadata=""),
                        ("secret", "secret-none", "seen-none"),
                    ),
                ),
                3,
            )
        yield Case(
            f"EndTxn {transactional_id}",
            lambda _, own=transactional_id: k26.Request(transactional_id=own, producer_id=99, producer_epoch=0, committed=False),
            3,
        )


def _other_transactions() -> Iterator[Case]:
    yield Case(
        "AddPartitionsToTxn of brokers",
        lambda _: k24.Request(
            transactions=[
                k24.Transaction(
                    transactional_id="z", producer_id=1, producer_epoch=0, verify_only=True, topics=[k24.Topic(name="seen", partitions=[0])]
                )
            ]
        ),
        4,
    )
    yield Case(
        "WriteTxnMarkers",
        lambda _: k27.Request(
            markers=[
                k27.Marker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=True,
                    topics=[k27.Topic(name="seen-none", partition_indexes=[0])],
                    coordinator_epoch=0,
                )
            ]
        ),
        1,
    )
    yield Case("DescribeTransactions", lambda _: k65.Request(transactional_ids=["x-none", "y-none"]))
    yield Case("ListTransactions", lambda _: k66.Request(state_filters=[], producer_id_filters=[]))


CONFIG_RESOURCES = [(2, "seen"), (2, "secret"), (2, "seen-none"), (2, "secret-none"), (4, "1"), (8, "1"), (16, "m"), (32, "g"), (32, "h")]


def _cluster() -> Iterator[Case]:
    yield Case(
        "DescribeConfigs",
        lambda _: k32.Request(
            resources=[k32.Resource(resource_type=kind, resource_name=name, configuration_keys=["x"]) for kind, name in CONFIG_RESOURCES]
        ),
    )
    named_only = [each for each in CONFIG_RESOURCES if each[0] != 8]
    yield Case(
        "AlterConfigs",
        lambda _: k33.Request(
            resources=[k33.Resource(resource_type=kind, resource_name=name, configs=[]) for kind, name in named_only if kind in {2, 32}],
            validate_only=True,
        ),
    )
    yield Case(
        "IncrementalAlterConfigs",
        lambda _: k44.Request(
            resources=[k44.Resource(resource_type=kind, resource_name=name, configs=[]) for kind, name in named_only], validate_only=True
        ),
    )
    yield Case("ListConfigResources", lambda _: k74.Request())
    yield Case("DescribeClientQuotas", lambda _: k48.Request(components=[], strict=False))
    yield Case(
        "AlterClientQuotas",
        lambda _: k49.Request(
            entries=[
                k49.Entry(
                    entity=[k49.Entity(entity_type="user", entity_name="u")],
                    ops=[k49.Operation(key="producer_byte_rate", value=1e9, remove=False)],
                )
            ],
            validate_only=True,
        ),
    )
    yield Case("DescribeUserScramCredentials", lambda _: k50.Request(users=[k50.User(name="nobody")]))
    yield Case("AlterUserScramCredentials", lambda _: k51.Request(deletions=[k51.Deletion(name="nobody", mechanism=1)], upsertions=[]))


def _acls_and_brokers() -> Iterator[Case]:
    any_acl: dict[str, Any] = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    yield Case(
        "DescribeAcls",
        lambda _: k29.Request(resource_type_filter=6, resource_name_filter=None, pattern_type_filter=1, **any_acl),
    )
    wrong: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "",
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    yield Case("CreateAcls", lambda _: k30.Request(creations=[k30.AclCreation(**wrong)]))
    yield Case(
        "DeleteAcls",
        lambda _: k31.Request(
            filters=[k31.DeleteAclsFilter(resource_type_filter=6, resource_name_filter=None, pattern_type_filter=1, **any_acl)]
        ),
    )
    yield Case("DescribeLogDirs", lambda _: k35.Request(topics=[]))
    yield Case(
        "AlterReplicaLogDirs",
        lambda at: k34.Request(
            dirs=[
                k34.Directory(
                    path=at.log_dir, topics=[k34.RequestTopic(name=name, partitions=[0]) for name in ("seen-none", "secret-none")]
                )
            ]
        ),
    )
    yield Case(
        "ElectLeaders",
        lambda _: k43.Request(topic_partitions=[k43.Topic(topic=name, partitions=[0]) for name in ("seen-none", "secret-none")]),
    )
    yield Case(
        "AlterPartitionReassignments",
        lambda _: k45.Request(topics=[k45.Topic(name="seen-none", partitions=[k45.Partition(partition_index=0, replicas=None)])]),
    )
    yield Case("ListPartitionReassignments", lambda _: k46.Request())
    yield Case(
        "DescribeQuorum",
        lambda _: k55.Request(topics=[k55.Topic(topic_name="__cluster_metadata", partitions=[k55.Partition(partition_index=0)])]),
    )
    yield Case("UpdateFeatures", lambda _: k57.Request(feature_updates=[], validate_only=True))
    yield Case("DescribeCluster", lambda _: k60.Request(include_cluster_authorized_operations=True, endpoint_type=1))


CASES: list[Case] = [
    *_records(),
    *_groups(),
    *_several_groups(),
    *_heartbeats(),
    *_share_groups(),
    *_transactions(),
    *_other_transactions(),
    *_cluster(),
    *_acls_and_brokers(),
    *_topics(),
    *_changes_of_topics(),
]
