"""Capture golden frames of groups with members, of share groups, and of the admin tools for more than topics and configs.

Starts an Apache Kafka behind a proxy. Several client libraries join groups of all kinds, two at a time, commit, go and come back;
Kafka's tools describe and change groups. franz-go sends every version. `records/groups_kafka_4.3.1.json` gets the segments of
`__consumer_offsets`, and how DumpLogSegments prints them. WIRE_LOG gets the conversation, one frame a line.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minibroker.errors import WireError
from tests.golden import Golden, Provenance, stem_of
from tests.golden.captures import drive_clients, dumped, kafka_behind_proxy, write_frames, write_wire_log
from tests.golden.captures.clients import GROUP_KEYS, STREAMS_KEYS, keep
from tests.support import java
from tests.support.capture_proxy import Captured

HERE = Path(__file__).parents[1]
LOGS = HERE / "records" / "groups_kafka_4.3.1.json"
PROGRAM = HERE / "GroupMembers.java"
SHOWN_KEYS = GROUP_KEYS | STREAMS_KEYS | {8, 9, 10, 28}
BACKGROUND = "background"  #: client id of members that are only there to be looked at
JAVA_SCENES = ("eager", "cooperative", "static", "crash", "consumer", "consumer_static", "regex", "migration", "share", "share_explicit")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.record.lock.duration.ms": "15000",
    "share.coordinator.state.topic.num.partitions": "1",
}
TOOLS = "org.apache.kafka.tools."


def java_scene(scene: str) -> Callable[[str], None]:
    """A scene of GroupMembers.java."""

    def drive(bootstrap: str) -> None:
        command = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{java.kafka_jars()}/*"]
        subprocess.run([*command, str(PROGRAM), bootstrap, scene, "java-groups"], check=scene != "crash", timeout=180)

    return drive


def crash_and_recover(bootstrap: str) -> None:
    """Members that died are waited for by the next ones."""
    for _ in range(2):
        java_scene("crash")(bootstrap)


def take_turns(first: Any, second: Any, seconds: float) -> None:
    """Poll two consumers of librdkafka for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for consumer in (first, second):
            if consumer is not None:
                consumer.poll(0.1)


def librdkafka_member(bootstrap: str, group: str, topics: list[str], **extra: str) -> Any:
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    if extra.get("group.protocol") != "consumer":
        settings |= {"heartbeat.interval.ms": "1000", "session.timeout.ms": "6000"}
    consumer = Consumer(settings | {name.replace("_", "."): value for name, value in extra.items()})
    consumer.subscribe(topics)
    return consumer


def librdkafka(kind: str) -> Callable[[str], None]:
    """Two members, the second of which comes later and goes first."""
    extra = {
        "eager": {},
        "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
        "static": {},
        "consumer": {"group.protocol": "consumer"},
        "regex": {"group.protocol": "consumer"},
    }[kind]
    topics = ["^librdkafka-gr.*"] if kind == "regex" else ["librdkafka-groups"]

    def member(bootstrap: str, name: str) -> Any:
        static = {"group.instance.id": name} if kind == "static" else {}
        return librdkafka_member(bootstrap, f"librdkafka-{kind}", topics, **extra, **static)

    def drive(bootstrap: str) -> None:
        first = member(bootstrap, "one")
        take_turns(first, None, 5)
        second = member(bootstrap, "two")
        take_turns(first, second, 8)
        first.commit(asynchronous=False)
        second.close()
        if kind == "static":
            second = member(bootstrap, "two")
            take_turns(first, second, 4)
            second.close()
        take_turns(first, None, 4)
        first.close()

    return drive


def librdkafka_admin(bootstrap: str) -> None:
    from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_consumer_groups().result()
    admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result()
    names = ["librdkafka-eager", "librdkafka-consumer", "librdkafka-absent"]
    for described in admin.describe_consumer_groups(names, include_authorized_operations=True).values():
        described.exception()
    offsets = [TopicPartition("librdkafka-groups", 0, 1)]
    for altered in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("librdkafka-eager", offsets)]).values():
        altered.result()
    for listed in admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("librdkafka-eager")]).values():
        listed.result()
    for deleted in admin.delete_consumer_groups(["librdkafka-eager", "librdkafka-absent"]).values():
        deleted.exception()
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for changed in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("librdkafka", info, b"password", b"salt")]).values():
        changed.result()
    admin.describe_user_scram_credentials(["librdkafka"])["librdkafka"].result()
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("librdkafka-groups", 0)]).result()


def kafka_python(bootstrap: str) -> None:
    import kafka

    common = {"bootstrap_servers": bootstrap, "group_id": "kafka-python-group", "auto_offset_reset": "earliest"}
    timing = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000, "enable_auto_commit": False}

    def live(seconds: float) -> None:
        consumer = kafka.KafkaConsumer("kafka-python-groups", **common, **timing)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if consumer.poll(timeout_ms=200):
                consumer.commit()
        consumer.close()

    first = threading.Thread(target=live, args=(14,))
    first.start()
    time.sleep(4)
    live(5)
    first.join()


def kafka_python_admin(bootstrap: str) -> None:
    import kafka

    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    partition = kafka.TopicPartition("kafka-python-groups", 0)
    calls: list[Callable[[], Any]] = [
        admin.list_groups,
        lambda: admin.describe_groups(["kafka-python-group", "absent"], include_authorized_operations=True),
        lambda: admin.list_group_offsets({"kafka-python-group": None}),
        lambda: admin.alter_group_offsets("kafka-python-group", {partition: kafka.OffsetAndMetadata(1, "", -1)}),
        lambda: admin.delete_group_offsets("kafka-python-group", [partition]),
        lambda: admin.delete_groups(["kafka-python-group", "absent"]),
        lambda: admin.elect_leaders(0, {"kafka-python-groups": [0]}),
        admin.list_partition_reassignments,
        lambda: admin.alter_partition_reassignments({partition: [1]}),
        admin.describe_metadata_quorum,
        admin.describe_user_scram_credentials,
        admin.list_config_resources,
    ]
    for call in calls:
        try:
            call()
        except Exception as error:  # noqa: BLE001  what it makes of the answers is not the point
            print(f"kafka-python: {error!r}")
    admin.close()


def aiokafka(bootstrap: str) -> None:
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import KafkaError

    async def live(seconds: float) -> None:
        consumer = AIOKafkaConsumer(
            "aiokafka-groups",
            bootstrap_servers=bootstrap,
            group_id="aiokafka-group",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
        )
        await consumer.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if await consumer.getmany(timeout_ms=200):
                await consumer.commit()
        await consumer.stop()

    async def late() -> None:
        await asyncio.sleep(4)
        await live(5)

    await asyncio.gather(live(14), late())
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.list_consumer_groups()
    try:
        await admin.describe_consumer_groups(["aiokafka-group", "absent"], include_authorized_operations=True)
    except KafkaError as error:  # 0.14.0 cannot read Apache Kafka's answer
        print(f"aiokafka: {error!r}")
    await admin.list_consumer_group_offsets("aiokafka-group")
    await admin.close()


def franz_go(what: str) -> Callable[[str], None]:
    """`groups` for every version, else the kind of group that kgo is to be a member of."""

    def drive(bootstrap: str) -> None:
        subprocess.run(["go", "run", ".", bootstrap, what], cwd=HERE / "franz_go", check=True)

    return drive


@contextmanager
def looked_at(bootstrap: str) -> Iterator[None]:
    """A classic group and a new one that are alive meanwhile; what they say is not kept."""
    stop = threading.Event()
    topics = ["java-groups"]
    members = [
        librdkafka_member(bootstrap, "live", topics, client_id=BACKGROUND, group_instance_id="one"),
        librdkafka_member(bootstrap, "live-next", topics, client_id=BACKGROUND, **{"group.protocol": "consumer"}),
    ]

    def live() -> None:
        while not stop.is_set():
            take_turns(members[0], members[1], 0.2)

    thread = threading.Thread(target=live)
    thread.start()
    time.sleep(5)
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for member in members:
            member.close()


def tool(bootstrap: str, name: str, *arguments: str, server: str = "--bootstrap-server") -> None:
    """One call of a tool of Kafka, whose failure is worth seeing, too."""
    result = java.run_tool(name if name.startswith("kafka.") else TOOLS + name, server, bootstrap, *arguments, check=False)
    print(f"$ {name} {' '.join(arguments)}\n{result}", flush=True)


def java_group_tools(bootstrap: str) -> None:
    """ConsumerGroupCommand and GroupsCommand upon groups that are alive, and then upon dead ones."""
    groups, topic = "consumer.group.ConsumerGroupCommand", "java-groups"
    calls: tuple[tuple[str, ...], ...]
    with looked_at(bootstrap):
        calls = (
            ("--list",),
            ("--list", "--state", "Stable", "--type", "classic"),
            ("--describe", "--all-groups", "--verbose"),
            ("--describe", "--group", "live", "--members", "--verbose"),
            ("--describe", "--group", "live-next", "--members", "--verbose"),
            ("--describe", "--group", "live", "--state"),
            ("--describe", "--group", "absent"),
            ("--delete", "--group", "live"),
            ("--delete-offsets", "--group", "live", "--topic", topic),
            ("--reset-offsets", "--group", "live", "--topic", topic, "--to-earliest", "--execute"),
        )
        for arguments in calls:
            tool(bootstrap, groups, *arguments)
        tool(bootstrap, "GroupsCommand", "--list")
    calls = (
        ("--reset-offsets", "--group", "eager-of-java-groups", "--topic", topic, "--to-offset", "1", "--dry-run"),
        ("--reset-offsets", "--group", "eager-of-java-groups", "--topic", topic, "--by-duration", "PT1H", "--execute"),
        ("--delete-offsets", "--group", "eager-of-java-groups", "--topic", topic),
        ("--delete", "--group", "eager-of-java-groups", "--group", "consumer-of-java-groups", "--group", "absent"),
    )
    for call in calls:
        tool(bootstrap, groups, *call)


def java_share_tools(bootstrap: str) -> None:
    """ShareGroupCommand upon what the share scenes left."""
    share, group, topic = "consumer.group.ShareGroupCommand", "share-of-java-groups", "java-groups"
    for options in (
        ("--list",),
        ("--describe", "--group", group),
        ("--describe", "--group", group, "--members"),
        ("--describe", "--group", group, "--state"),
        ("--describe", "--group", "absent"),
        ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"),
        ("--delete-offsets", "--group", group, "--topic", topic),
        ("--delete", "--group", group),
    ):
        tool(bootstrap, share, *options)


def java_admin_tools(bootstrap: str) -> None:
    """Leaders, reassignments, quotas, SCRAM, quorum, features, config resources."""
    with tempfile.TemporaryDirectory() as folder:
        plan, topics = Path(folder) / "plan.json", Path(folder) / "topics.json"
        partition = {"topic": "java-groups", "partition": 0, "replicas": [1], "log_dirs": ["any"]}
        plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "java-groups"}]}))
        where = ("--topic", "java-groups", "--partition", "0")
        tool(bootstrap, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
        tool(bootstrap, "LeaderElectionCommand", "--election-type", "unclean", *where)
        reassign = "reassign.ReassignPartitionsCommand"
        tool(bootstrap, reassign, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1")
        for step in ("--execute", "--verify", "--cancel"):
            tool(bootstrap, reassign, step, "--reassignment-json-file", str(plan))
        tool(bootstrap, reassign, "--list")
    config = java.CONFIG_COMMAND
    user = ("--entity-type", "users", "--entity-name", "java")
    client = ("--entity-type", "clients", "--entity-default")
    tool(bootstrap, config, "--alter", *user, "--add-config", "producer_byte_rate=1024")
    tool(bootstrap, config, "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    tool(bootstrap, config, "--alter", *user, *client, "--add-config", "consumer_byte_rate=2048")
    tool(bootstrap, config, "--alter", "--entity-type", "ips", "--entity-name", "127.0.0.9", "--add-config", "connection_creation_rate=9")
    tool(bootstrap, config, "--describe", *user)
    tool(bootstrap, config, "--describe", "--entity-type", "users", "--entity-type", "clients")
    tool(bootstrap, config, "--describe", "--entity-type", "ips")
    tool(bootstrap, config, "--alter", *user, "--delete-config", "producer_byte_rate")
    tool(bootstrap, config, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    tool(bootstrap, config, "--alter", "--entity-type", "groups", "--entity-name", "g", "--add-config", "consumer.session.timeout.ms=50000")
    tool(bootstrap, config, "--describe", "--entity-type", "groups")
    tool(bootstrap, config, "--describe", "--entity-type", "topics")
    tool(bootstrap, "MetadataQuorumCommand", "describe", "--status")
    tool(bootstrap, "MetadataQuorumCommand", "describe", "--replication")
    tool(bootstrap, "FeatureCommand", "describe")
    tool(bootstrap, "FeatureCommand", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    tool(bootstrap, "FeatureCommand", "upgrade", "--feature", "nonsense=1", "--dry-run")
    tool(bootstrap, "ClientMetricsCommand", "--list")


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """As in capture.clients: label -> driver, client, command."""
    newest = java.KAFKA_VERSION
    named = {
        f"java_{newest}_{scene}": (java_scene(scene), f"Apache Kafka's Java client {newest}", f"GroupMembers.java {scene}")
        for scene in JAVA_SCENES
    }
    named[f"java_{newest}_crash"] = (crash_and_recover, f"Apache Kafka's Java client {newest}", "GroupMembers.java crash, twice")
    for kind in ("eager", "cooperative", "static", "consumer", "regex"):
        named[f"librdkafka_2.16.1_{kind}"] = (librdkafka(kind), "confluent-kafka 2.16.1 (librdkafka)", f"captures.groups.librdkafka {kind}")
    named |= {
        "librdkafka_2.16.1_admin": (librdkafka_admin, "confluent-kafka 2.16.1 (librdkafka)", "captures.groups.librdkafka_admin"),
        "kafka_python_3.0.12_group": (kafka_python, "kafka-python 3.0.12", "captures.groups.kafka_python"),
        "kafka_python_3.0.12_admin": (kafka_python_admin, "kafka-python 3.0.12", "captures.groups.kafka_python_admin"),
        "aiokafka_0.14.0_group": (aiokafka, "aiokafka 0.14.0", "captures.groups.aiokafka"),
        "franz_go_1.22.2_groups": (franz_go("groups"), "franz-go 1.22.2", "tests/golden/franz_go, each version pinned"),
    }
    for kind in ("cooperative", "static", "consumer", "share"):
        named[f"franz_go_1.22.2_{kind}"] = (franz_go(kind), "franz-go 1.22.2", f"tests/golden/franz_go {kind}")
    tools = f"Apache Kafka's Java tools {newest}"
    return named | {
        f"java_{newest}_group_tools": (java_group_tools, tools, "captures.groups.java_group_tools"),
        f"java_{newest}_share_tools": (java_share_tools, tools, "captures.groups.java_share_tools"),
        f"java_{newest}_admin_tools": (java_admin_tools, tools, "captures.groups.java_admin_tools"),
    }


def prepare(bootstrap: str) -> None:
    """The topics, two partitions each with three records; and both coordinators."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    names = ["java-groups", "librdkafka-groups", "kafka-python-groups", "aiokafka-groups", "golden-grouped", "golden"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        made.result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for name in names:
        for i in range(6):
            producer.produce(name, b"value %d" % i, partition=i % 2)
            producer.flush()
    earliest = ("--alter", "--entity-type", "groups", "--add-config", "share.auto.offset.reset=earliest")
    for scene in ("share", "share_explicit"):
        tool(bootstrap, java.CONFIG_COMMAND, *earliest, "--entity-name", f"{scene}-of-java-groups")
    tool(bootstrap, java.CONFIG_COMMAND, *earliest, "--entity-name", "kgo-share")
    member = librdkafka_member(bootstrap, "first of all", ["golden"])
    take_turns(member, None, 4)
    member.close()


def is_whole(frame: Captured) -> bool:
    """Whether the schema uses every byte: librdkafka leaves one behind AlterUserScramCredentials, and Kafka passes over it."""
    stem = stem_of(frame.api_key)
    golden = Golden("", stem, frame.api_key, frame.version, frame.direction, frame.data, Provenance("", "", ""))
    try:
        golden.decode()
    except WireError as error:
        print(f"{frame.label} {stem} v{frame.version} {frame.direction}: {error}: {frame.data.hex()}")
        return False
    return True


def capture(wire_log: str = "", *wanted: str) -> None:
    catalogue = clients()
    with kafka_behind_proxy(SETTINGS) as (kafka, proxy):
        bootstrap = f"127.0.0.1:{proxy.port}"
        prepare(bootstrap)
        proxy.frames.clear()
        chosen = {label: entry for label, entry in catalogue.items() if not wanted or label in wanted}
        drive_clients(proxy, chosen, keeps_going=True)
        frames = [frame for frame in proxy.frames if frame.client_id != BACKGROUND and not frame.client_id.startswith("broker-")]
        if wire_log:
            write_wire_log(wire_log, frames, SHOWN_KEYS)
        kafka.stop()
        logs = {} if wanted else dumped(kafka.data_dir)
    if wanted:
        return
    frames = [frame for frame in frames if frame.api_key in GROUP_KEYS and is_whole(frame)]
    write_frames(keep(frames, catalogue, GROUP_KEYS))
    head = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden capture groups", "decoded by": "DumpLogSegments"}
    LOGS.write_text(json.dumps(head | {"segments": logs}, indent=1) + "\n")
