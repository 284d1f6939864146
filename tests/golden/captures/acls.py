"""Capture golden frames of DescribeAcls, CreateAcls and DeleteAcls from an Apache Kafka without an authorizer.

Starts the broker behind a proxy and asks with kafka-python, librdkafka, Kafka's AclCommand and franz-go (each version). Needs Java with
Maven, Go, and the dev extra.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from typing import Any

from tests.golden.captures import drive_clients, kafka_behind_proxy, write_frames
from tests.golden.captures.clients import ACL_KEYS, HERE, keep
from tests.support import java

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"


def kafka_python(bootstrap: str) -> None:
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )
    from kafka.admin import ACLResourcePatternType as PatternType
    from kafka.errors import KafkaError

    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)  # untyped
    topic = ResourcePattern(ResourceType.TOPIC, "kafka-python")
    entry = ACL("User:anna", "*", ACLOperation.READ, ACLPermissionType.ALLOW, topic)
    anything = ResourcePatternFilter(ResourceType.ANY, None, PatternType.ANY)
    every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    calls: list[Callable[[], Any]] = [
        lambda: admin.create_acls([entry]),
        lambda: admin.describe_acls(every),
        lambda: admin.delete_acls([every]),
    ]
    for call in calls:
        with contextlib.suppress(KafkaError):
            call()
    admin.close()


def librdkafka(bootstrap: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    rights = ("*", AclOperation.READ, AclPermissionType.ALLOW)
    entry = AclBinding(ResourceType.TOPIC, "librdkafka", ResourcePatternType.LITERAL, "User:anna", *rights)
    any_right = (None, AclOperation.ANY, AclPermissionType.ANY)
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, *any_right)
    answers = [*admin.create_acls([entry]).values(), admin.describe_acls(every), *admin.delete_acls([every]).values()]
    for answer in answers:
        with contextlib.suppress(KafkaException):
            answer.result(30)


def java_tool(bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    entry = ("--allow-principal", "User:anna", "--operation", "Read", "--topic", "java")
    for options in (("--list",), ("--list", "--topic", "java"), ("--add", *entry, "--force"), ("--remove", *entry, "--force")):
        java.run_tool(ACL_COMMAND, *at, *options, check=False)


def franz_go(bootstrap: str) -> None:
    subprocess.run(["go", "run", ".", bootstrap, "acls"], cwd=HERE / "franz_go", check=True)


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """Label of a frame -> what drives the client, its name and version for people, the command."""
    return {
        "kafka_python_3.0.12_acls": (kafka_python, "kafka-python 3.0.12", "captures.acls.kafka_python"),
        "librdkafka_2.16.1_acls": (librdkafka, "confluent-kafka 2.16.1 (librdkafka)", "captures.acls.librdkafka"),
        f"java_{java.KAFKA_VERSION}_acls": (java_tool, f"Apache Kafka's AclCommand {java.KAFKA_VERSION}", "captures.acls.java_tool"),
        "franz_go_1.22.2_acls": (franz_go, "franz-go 1.22.2", "tests/golden/franz_go acls, each version pinned"),
    }


def capture() -> None:
    catalogue = clients()
    with kafka_behind_proxy({}) as (_, proxy):
        drive_clients(proxy, catalogue)
    write_frames(keep(proxy.frames, catalogue, ACL_KEYS))
