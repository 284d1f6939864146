"""The start procedures of Testcontainers, step by step as their modules take them, against our image instead of Kafka's.

Each starts a container that waits for a script, learns the port that it was given, writes the script, and waits for a line of the log.
The steps were read in the sources of the modules: testcontainers-python 4.15.0, of the others what was newest in November 2026. Go's for
Apache's image is its Confluent one with that image's script.
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
COMMON = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
KRAFT = {
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
ZOOKEEPER = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
}
ON_9092 = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094"}
ON_9093 = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"}
ON_9093_ALONE = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"}
ON_9092_ALONE = {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093"}

RUNNING = r"Transitioning from RECOVERY to RUNNING"
TMP_SCRIPT = "/tmp/testcontainers_start.sh"  # noqa: S108  in the container
STARTED = r"\[KafkaServer id=\d+\] started"
SERVER_STARTED = r"Kafka Server started"

START_ZOOKEEPER = """echo 'clientPort=2181' > zookeeper.properties
echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties
echo 'dataLogDir=/var/lib/zookeeper/log' >> zookeeper.properties
zookeeper-server-start zookeeper.properties &
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


def waiting(path: str, run: str = "") -> str:
    return f"while [ ! -f {path} ]; do sleep 0.1; done; {run}{path}"


PROCEDURES = {
    "java, apache/kafka": Procedure(
        {**COMMON, **KRAFT, "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094"},
        9092,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9093\n/etc/kafka/docker/run \n",
        TMP_SCRIPT,
        RUNNING,
        command=("sh", "-c", waiting(TMP_SCRIPT)),
    ),
    "java, with a listener of the test's": Procedure(
        {
            **COMMON,
            **KRAFT,
            "KAFKA_LISTENERS": "TC-0://kafka:19092,CONTROLLER://:9094,PLAINTEXT://:9092,BROKER://:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "TC-0:PLAINTEXT,CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        },
        9092,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9093,TC-0://kafka:19092\n"
        "/etc/confluent/docker/run \n",
        TMP_SCRIPT,
        RUNNING,
        command=("sh", "-c", waiting(TMP_SCRIPT)),
    ),
    "java, confluent of old": Procedure(
        {**COMMON, **ZOOKEEPER, **ON_9093_ALONE},
        9093,
        "#!/bin/bash\n"
        + START_ZOOKEEPER
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9092\n"
        + "echo '' > /etc/confluent/docker/ensure \n/etc/confluent/docker/run \n",
        "/testcontainers_start.sh",
        STARTED,
        command=("sh", "-c", waiting("/testcontainers_start.sh")),
    ),
    "go, confluent": Procedure(
        {
            **COMMON,
            **{name: value for name, value in KRAFT.items() if name != "CLUSTER_ID"},
            **ON_9093,
            "KAFKA_REST_BOOTSTRAP_SERVERS": "x",
        },
        9093,
        "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
        'export KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://{host}:{port},BROKER://{name}:9092'
        '${EXTRA_ADVERTISED_LISTENERS:+,${EXTRA_ADVERTISED_LISTENERS}}"\n'
        "echo Starting Kafka KRaft mode\n"
        + FORMAT.replace("{cluster_id}", '"$(kafka-storage random-uuid)"')
        + "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        "/usr/sbin/testcontainers_start.sh",
        RUNNING,
        entrypoint=("sh",),
        command=("-c", waiting("/usr/sbin/testcontainers_start.sh", "bash ")),
    ),
    "go, apache": Procedure(
        {**COMMON, **KRAFT, **ON_9093},
        9093,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{name}:9092\n"
        "echo Starting Apache Kafka\nexec /etc/kafka/docker/run\n",
        "/usr/sbin/testcontainers_start.sh",
        RUNNING,
        entrypoint=("sh",),
        command=("-c", waiting("/usr/sbin/testcontainers_start.sh", "bash ")),
    ),
    "python, with ZooKeeper": Procedure(
        {**COMMON, **ZOOKEEPER, **ON_9093_ALONE, "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000"},
        9093,
        "#!/bin/bash\n"
        + START_ZOOKEEPER
        + "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n"
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i):9092\n"
        + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        "/tc-start.sh",
        STARTED,
        command=("sh", "-c", waiting("/tc-start.sh", "sh ")),
    ),
    "python, KRaft": Procedure(
        {**COMMON, **KRAFT, **ON_9093, "CLUSTER_ID": "q+sT/kxVTyqN2cZ9O5vLxA=="},
        9093,
        "#!/bin/bash\n"
        + FORMAT.replace("{cluster_id}", "q+sT/kxVTyqN2cZ9O5vLxA==")
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i | cut -d' ' -f1):9092\n"
        + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        "/tc-start.sh",
        SERVER_STARTED,
        command=("sh", "-c", waiting("/tc-start.sh", "sh ")),
    ),
    "node, KRaft": Procedure(
        {
            **COMMON,
            **KRAFT,
            **ON_9093,
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
        },
        9093,
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://{name}:9092,PLAINTEXT://{host}:{port}\n"
        + FORMAT.replace("{cluster_id}", f'"{CLUSTER_ID}"')
        + "/etc/confluent/docker/run \n",
        "/testcontainers_start.sh",
        SERVER_STARTED,
        entrypoint=("sh",),
        command=("-c", f"echo 'Waiting for script...'; {waiting('/testcontainers_start.sh')}"),
    ),
    "dotnet, confluent": Procedure(
        {**COMMON, **ZOOKEEPER, **ON_9092_ALONE},
        9092,
        "#!/bin/bash\n\n"
        + START_ZOOKEEPER
        + "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{address}:9093,\n"
        + "echo '' > /etc/confluent/docker/ensure\nexec /etc/confluent/docker/run\n",
        "/testcontainers.sh",
        STARTED,
        entrypoint=("/bin/sh", "-c"),
        command=(waiting("/testcontainers.sh"),),
    ),
    "rust, apache": Procedure(
        {**COMMON, **KRAFT, **ON_9092, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9092"},
        9092,
        "#!/usr/bin/env bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://localhost:9093\n"
        "/etc/kafka/docker/run \n",
        "/opt/kafka/testcontainers_start.sh",
        SERVER_STARTED,
        entrypoint=("bash",),
        command=(
            "-c",
            (
                "while [ ! -f /opt/kafka/testcontainers_start.sh  ]; do sleep 0.1; done; "
                "chmod 755 /opt/kafka/testcontainers_start.sh && /opt/kafka/testcontainers_start.sh"
            ),
        ),
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
        ports=[procedure.port],
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
        with Client(f"127.0.0.1:{port}") as client:
            producer = Producer(client, "orders")
            assert [str(address) for address in client.brokers.values()] == [f"127.0.0.1:{port}"]
            producer.add(Record(0, 1_700_000_000_000, b"k", b"apples"))
            producer.flush()
            (consumed,) = Consumer(client, "orders", {0: 0}).poll(5000)
            assert consumed.record.value == b"apples"
        if "CLUSTER_ID" in procedure.environment:
            assert (
                container.run("kafka-cluster", "cluster-id", "--bootstrap-server", "localhost:9092").strip()
                == f"Cluster ID: {procedure.environment['CLUSTER_ID']}"
            )
