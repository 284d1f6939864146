"""The start procedures of Testcontainers, step by step as their modules take them, against our image instead of Kafka's.

Each starts a container that waits for a script, learns the port that it was given, writes the script, and waits for a line of the log.
Variables, commands and scripts are those that the libraries themselves gave to a container of this image (docs/container.md names
versions and how they were tried); .NET's were read in its source of July 2026.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from minibroker.client.client import Client
from minibroker.client.consumer import Consumer
from minibroker.client.producer import Producer
from minibroker.records.record import Record
from tests.docker.podman import Container

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PYTHON_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
RUST_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
ONE_REPLICA = {"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1", "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1"}
COMMON = {
    **ONE_REPLICA,
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
WITH_CONTROLLER = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
KRAFT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": WITH_CONTROLLER,
}
ZOOKEEPER = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
}
ON_9092 = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094"}
ON_9093 = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"}
ON_9093_ALONE = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"}
JAVA = {"CLUSTER_ID": CLUSTER_ID, **{name: value for name, value in COMMON.items() if name != "KAFKA_BROKER_ID"}, **KRAFT}
NODE = {
    **{name: value for name, value in COMMON.items() if name != "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR"},
    "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
}
PYTHON = {
    **ONE_REPLICA,
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
DOTNET = {
    "CLUSTER_ID": CLUSTER_ID,
    **COMMON,
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}

RUNNING = r"Transitioning from RECOVERY to RUNNING"
JAVA_SCRIPT = "/tmp/testcontainers_start.sh"  # noqa: S108  in the container
GO_SCRIPT = "/usr/sbin/testcontainers_start.sh"
NODE_SCRIPTS = ("/testcontainers_start.sh", "/tmp/testcontainers_start.sh")  # noqa: S108  of versions 10 and 11, of 12
RUST_SCRIPT = "/opt/kafka/testcontainers_start.sh"
STARTED = r"\[KafkaServer id=\d+\] started"
SERVER_STARTED = r"Kafka Server started"
ZOOKEEPER_PORT = 2181

START_ZOOKEEPER = """echo 'clientPort=2181' > {file}
echo 'dataDir=/var/lib/zookeeper/data' >> {file}
echo 'dataLogDir=/var/lib/zookeeper/log' >> {file}
zookeeper-server-start {file} &
"""
FORMAT = """sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo 'kafka-storage format --ignore-formatted -t {cluster_id} -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure
"""


class Procedure(NamedTuple):
    """`{host}:{port}` in the script is where the host reaches the container, `{name}` its host name, `{address}` its address."""

    environment: dict[str, str]
    port: int
    script: str  #: what it writes
    path: str  #: where
    ready: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    by_command: bool = False  #: the script is written by a command in the container, not by an archive
    also_waits_for: int | None = None  #: a port of the container that must be open, too


def waiting(path: str, run: str = "") -> str:
    return f"while [ ! -f {path} ]; do sleep 0.1; done; {run}{path}"


def started_zookeeper(file: str = "zookeeper.properties") -> str:
    return START_ZOOKEEPER.replace("{file}", file)


PROCEDURES = {
    "java, KafkaContainer": Procedure(
        {**JAVA, **ON_9092},
        9092,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9093\n/etc/kafka/docker/run \n",
        JAVA_SCRIPT,
        RUNNING,
        command=("sh", "-c", waiting(JAVA_SCRIPT)),
    ),
    "java, ConfluentKafkaContainer with a listener of the test's": Procedure(
        {
            **JAVA,
            "KAFKA_LISTENERS": "TC-0://kafka:19092,CONTROLLER://0.0.0.0:9094,PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "TC-0:PLAINTEXT,CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        },
        9092,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9093,TC-0://kafka:19092\n"
        "/etc/confluent/docker/run \n",
        JAVA_SCRIPT,
        RUNNING,
        command=("sh", "-c", waiting(JAVA_SCRIPT)),
    ),
    "java, the older KafkaContainer": Procedure(
        {**COMMON, **ZOOKEEPER, **ON_9093_ALONE},
        9093,
        "#!/bin/bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9092\n"
        "echo '' > /etc/confluent/docker/ensure \n" + started_zookeeper("/tmp/zookeeper.properties") + "/etc/confluent/docker/run \n",  # noqa: S108  in the container
        JAVA_SCRIPT,
        STARTED,
        command=("sh", "-c", waiting(JAVA_SCRIPT)),
    ),
    "java, the older KafkaContainer with KRaft": Procedure(
        {"CLUSTER_ID": CLUSTER_ID, **COMMON, **KRAFT, **ON_9093},
        9093,
        "#!/bin/bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9092\n"
        + FORMAT.replace("{cluster_id}", f'"{CLUSTER_ID}"')
        + "/etc/confluent/docker/run \n",
        JAVA_SCRIPT,
        RUNNING,
        command=("sh", "-c", waiting(JAVA_SCRIPT)),
    ),
    "go": Procedure(
        {**COMMON, **KRAFT, **ON_9093, "KAFKA_REST_BOOTSTRAP_SERVERS": ON_9093["KAFKA_LISTENERS"]},
        9093,
        "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9092\n"
        "echo Starting Kafka KRaft mode\n"
        + FORMAT.replace("{cluster_id}", '"$(kafka-storage random-uuid)"')
        + "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        GO_SCRIPT,
        RUNNING,
        entrypoint=("sh",),
        command=("-c", waiting(GO_SCRIPT, "bash ")),
    ),
    "a script that sources what Apache's run does": Procedure(
        {**COMMON, **KRAFT, **ON_9093},
        9093,
        "#!/usr/bin/env bash\n. /etc/kafka/docker/bash-config\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9092\n"
        ". /etc/kafka/docker/configureDefaults\n. /etc/kafka/docker/configure\n. /etc/kafka/docker/launch\n",
        GO_SCRIPT,
        RUNNING,
        entrypoint=("sh",),
        command=("-c", waiting(GO_SCRIPT, "bash ")),
    ),
    "python, with ZooKeeper": Procedure(
        {**PYTHON, **ON_9093_ALONE, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
        9093,
        "#!/bin/bash\n"
        + started_zookeeper()
        + "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n"
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i):9092\n"
        + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        "/tc-start.sh",
        STARTED,
        command=("sh", "-c", waiting("/tc-start.sh", "sh ")),
    ),
    "python, KRaft": Procedure(
        {"CLUSTER_ID": PYTHON_CLUSTER_ID, **PYTHON, **KRAFT, **ON_9093},
        9093,
        "#!/bin/bash\n"
        + FORMAT.replace("{cluster_id}", PYTHON_CLUSTER_ID)
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i | cut -d' ' -f1):9092\n"
        + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        "/tc-start.sh",
        SERVER_STARTED,
        command=("sh", "-c", waiting("/tc-start.sh", "sh ")),
    ),
    "node, KRaft": Procedure(
        {"CLUSTER_ID": CLUSTER_ID, **NODE, **KRAFT, **ON_9093},
        9093,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://{name}:9092,PLAINTEXT://{host}:{port}\n/etc/confluent/docker/run \n",
        NODE_SCRIPTS[1],
        SERVER_STARTED,
        entrypoint=("sh",),
        command=("-c", f"echo 'Waiting for script...'; {waiting(NODE_SCRIPTS[1])}"),
    ),
    "node, with ZooKeeper": Procedure(
        {**NODE, **ZOOKEEPER, **ON_9093_ALONE},
        9093,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://{name}:9092,PLAINTEXT://{host}:{port}\n"
        "echo '' > /etc/confluent/docker/ensure \n" + started_zookeeper() + "/etc/confluent/docker/run \n",
        NODE_SCRIPTS[0],
        SERVER_STARTED,
        entrypoint=("sh",),
        command=("-c", f"echo 'Waiting for script...'; {waiting(NODE_SCRIPTS[0])}"),
        also_waits_for=ZOOKEEPER_PORT,
    ),
    "dotnet, apache": Procedure(
        {**DOTNET, "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER", "KAFKA_PROCESS_ROLES": "broker,controller"},
        9092,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{address}:9093,\nexec /etc/kafka/docker/run\n",
        "/testcontainers.sh",
        RUNNING,
        entrypoint=("/bin/sh", "-c"),
        command=(waiting("/testcontainers.sh"),),
    ),
    "dotnet, confluent": Procedure(
        {**DOTNET, "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},  # its listeners have a CONTROLLER, which nothing calls one
        9092,
        "#!/bin/bash\necho '' > /etc/confluent/docker/ensure\n"
        + started_zookeeper()
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{address}:9093,\nexec /etc/confluent/docker/run\n",
        "/testcontainers.sh",
        STARTED,
        entrypoint=("/bin/sh", "-c"),
        command=(waiting("/testcontainers.sh"),),
    ),
    "rust, apache": Procedure(
        {
            "CLUSTER_ID": RUST_CLUSTER_ID,
            **ON_9092,
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": WITH_CONTROLLER,
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9092",
            "KAFKA_BROKER_ID": "1",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        },
        9092,
        "#!/usr/bin/env bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://localhost:9093\n"
        "/etc/kafka/docker/run \n",
        RUST_SCRIPT,
        SERVER_STARTED,
        entrypoint=("bash",),
        command=("-c", f"while [ ! -f {RUST_SCRIPT}  ]; do sleep 0.1; done; chmod 755 {RUST_SCRIPT} && {RUST_SCRIPT}"),
        by_command=True,
    ),
}


@pytest.mark.parametrize("procedure", PROCEDURES.values(), ids=PROCEDURES)
def test_start(image: str, procedure: Procedure) -> None:
    options = ("--add-host", "kafka:127.0.0.1")
    with Container(
        image,
        *procedure.command,
        environment=procedure.environment,
        ports=[procedure.port, *filter(None, [procedure.also_waits_for])],
        entrypoint=procedure.entrypoint,
        options=options,
        ready=None,
    ) as container:
        port = container.port(procedure.port)
        script = procedure.script
        told = {"host": "127.0.0.1", "port": port, "name": container.inspect("{{.Config.Hostname}}"), "address": container.address()}
        for name, value in told.items():
            script = script.replace(f"{{{name}}}", str(value))
        if procedure.by_command:
            container.run("sh", "-c", f"echo '{script}' > {procedure.path}")
        else:
            container.put(procedure.path, script)
        container.wait_for_log(procedure.ready)
        if procedure.also_waits_for is not None:
            container.wait_for_log("no ZooKeeper is needed")
            container.run("nc", "-z", "localhost", str(procedure.also_waits_for))
        with Client(f"127.0.0.1:{port}") as client:
            producer = Producer(client, "orders")
            assert [str(address) for address in client.brokers.values()] == [f"127.0.0.1:{port}"]
            producer.add(Record(0, 1_700_000_000_000, b"k", b"apples"))
            producer.flush()
            (consumed,) = Consumer(client, "orders", {0: 0}).poll(30_000)
            assert consumed.record.value == b"apples"
        if "CLUSTER_ID" in procedure.environment:
            assert (
                container.run("kafka-cluster", "cluster-id", "--bootstrap-server", "localhost:9092").strip()
                == f"Cluster ID: {procedure.environment['CLUSTER_ID']}"
            )
