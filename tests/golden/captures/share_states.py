"""Capture golden frames of the share coordinator's APIs, which only brokers use.

Starts an Apache Kafka behind a proxy, through which it also sends requests to itself, while a share consumer of the Java client reads, and
Kafka's ShareGroupCommand describes and deletes the group. franz-go sends every version.
"""

from __future__ import annotations

from tests.clients.share_members import EXPLICIT, ShareMembers
from tests.golden.captures import drive_clients, kafka_behind_proxy, write_frames
from tests.golden.captures.clients import BROKER_KEYS, keep
from tests.golden.captures.groups import franz_go, tool
from tests.support import java

SETTINGS = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
GROUP, TOPIC = "golden-readers", "golden-read"


def itself(bootstrap: str) -> None:
    """A broker, for a group that reads."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(TOPIC, 2, 1)]).values():
        made.result()
    with ShareMembers(bootstrap) as members:
        members.join("one", GROUP, TOPIC, **EXPLICIT)
        members.poll("one", 1, 8_000)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(6):
            producer.produce(TOPIC, b"value %d" % number, partition=0)
        producer.flush()
        for index, record in enumerate(members.poll("one", 6)):
            members.say("one", record, ("ACCEPT", "RELEASE", "REJECT")[index % 3])
        members.commit("one")
        members.leave("one")
    for what in (("--describe",), ("--delete",)):
        tool(bootstrap, "consumer.group.ShareGroupCommand", *what, "--group", GROUP)


def capture() -> None:
    catalogue = {
        "kafka_4.3.1_itself": (itself, "Apache Kafka 4.3.1 itself", "captures.share_states.itself"),
        "franz_go_1.22.2_share_states": (franz_go("share_states"), "franz-go 1.22.2", "tests/golden/franz_go share_states"),
    }
    with kafka_behind_proxy(SETTINGS) as (_, proxy):
        drive_clients(proxy, catalogue)
        frames = list(proxy.frames)
    assert java.KAFKA_VERSION == "4.3.1"
    write_frames(keep(frames, catalogue, BROKER_KEYS))
