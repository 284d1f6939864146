"""ConfigCommand, and ClientMetricsCommand."""

from __future__ import annotations

from tests.differential.tools.transcript import Side

TOOL = "ConfigCommand"


def of_topics(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "conf")
    topic = ("--entity-type", "topics", "--entity-name", "conf")
    side.until(lambda said: said.exit_code == 0, TOOL, "--describe", *topic)
    side.run(TOOL, "--alter", *topic, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    side.until(lambda said: "retention.ms=1000" in str(said.out), TOOL, "--describe", *topic, ordered=False)
    side.run(TOOL, "--describe", *topic, "--all", ordered=False)
    side.run(TOOL, "--describe", "--topic", "conf", ordered=False)
    side.run(TOOL, "--alter", *topic, "--add-config-file", side.file("topic.properties", "segment.bytes=2097152\nmax.message.bytes=5\n"))
    side.run(TOOL, "--alter", *topic, "--delete-config", "retention.ms,cleanup.policy")
    side.until(lambda said: "retention.ms=" not in str(said.out), TOOL, "--describe", *topic, ordered=False)
    side.run(TOOL, "--alter", *topic, "--delete-config", "retention.ms")
    side.run(TOOL, "--alter", *topic, "--delete-config", "no.such.config")
    for config in (
        "retention.ms=soon",
        "retention.ms=-5",
        "no.such.config=1",
        "cleanup.policy=[]",
        "cleanup.policy=[delete,delete]",
        "min.insync.replicas=7",
        "compression.type=zip",
    ):
        side.run(TOOL, "--alter", *topic, "--add-config", config)
    side.run(TOOL, "--alter", "--entity-type", "topics", "--entity-name", "absent", "--add-config", "retention.ms=5")
    side.run(TOOL, "--describe", "--entity-type", "topics", "--entity-name", "absent")
    side.run(TOOL, "--describe", "--entity-type", "topics", "--entity-name", "bad name")
    side.run(TOOL, "--alter", "--entity-type", "topics", "--entity-default", "--add-config", "retention.ms=5")


def of_brokers(side: Side) -> None:
    broker, default = ("--entity-type", "brokers", "--entity-name", side.node_id), ("--entity-type", "brokers", "--entity-default")
    side.run(TOOL, "--describe", *broker)
    side.run(TOOL, "--describe", *default)
    side.run(TOOL, "--alter", *broker, "--add-config", "log.cleaner.backoff.ms=1234")
    side.until(lambda said: "=1234 sensitive" in str(said.out), TOOL, "--describe", *broker, ordered=False)
    side.run(TOOL, "--alter", *default, "--add-config", "message.max.bytes=2000000,log.retention.ms=86400000")
    side.until(lambda said: "2000000" in str(said.out), TOOL, "--describe", *default, ordered=False)
    side.run(TOOL, "--describe", *broker, ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "brokers", ordered=False)
    side.run("TopicCommand", "--create", "--topic", "under-the-broker")
    side.until(
        lambda said: "2000000" in str(said.out),
        TOOL,
        "--describe",
        "--entity-type",
        "topics",
        "--entity-name",
        "under-the-broker",
        "--all",
        ordered=False,
    )
    side.run(TOOL, "--alter", *broker, "--delete-config", "log.cleaner.backoff.ms")
    side.run(TOOL, "--alter", *default, "--delete-config", "message.max.bytes,log.retention.ms")
    side.until(lambda said: "2000000" not in str(said.out), TOOL, "--describe", *broker, ordered=False)
    for config in (
        "node.id=5",
        "log.dirs=/tmp",
        "no.such.config=1",
        "log.cleaner.backoff.ms=soon",
        "log.cleaner.backoff.ms=-4",
        "num.io.threads=0",
    ):
        side.run(TOOL, "--alter", *broker, "--add-config", config)
    side.run(TOOL, "--alter", *default, "--add-config", "listeners=PLAINTEXT://localhost:1")
    side.run(TOOL, "--describe", "--entity-type", "brokers", "--entity-name", 9)
    side.run(TOOL, "--describe", "--entity-type", "brokers", "--entity-name", "one")


def of_loggers(side: Side) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", side.node_id)
    side.run(TOOL, "--alter", *loggers, "--add-config", "no.such.logger=DEBUG")
    side.run(TOOL, "--alter", *loggers, "--add-config", "root=LOUD")
    side.run(TOOL, "--describe", "--entity-type", "broker-loggers", "--entity-name", 9)


def of_clients(side: Side) -> None:
    user, client, ip = (
        ("--entity-type", "users", "--entity-name"),
        ("--entity-type", "clients", "--entity-name"),
        ("--entity-type", "ips", "--entity-name"),
    )
    side.run(TOOL, "--alter", *user, "anna", "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048.5")
    side.run(TOOL, "--alter", *user, "anna", *client, "app", "--add-config", "request_percentage=50")
    side.run(TOOL, "--alter", *client, "app", "--add-config", "controller_mutation_rate=5")
    side.run(TOOL, "--alter", "--entity-type", "users", "--entity-default", "--add-config", "producer_byte_rate=1")
    side.run(TOOL, "--alter", "--entity-type", "clients", "--entity-default", "--add-config", "producer_byte_rate=2")
    side.run(TOOL, "--alter", *ip, "10.0.0.1", "--add-config", "connection_creation_rate=7")
    side.run(TOOL, "--alter", "--entity-type", "ips", "--entity-default", "--add-config", "connection_creation_rate=8")
    side.until(lambda said: "=8" in str(said.out), TOOL, "--describe", "--entity-type", "ips", ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "users", ordered=False)
    side.run(TOOL, "--describe", *user, "anna", ordered=False)
    side.run(TOOL, "--describe", *user, "anna", *client, "app", ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "clients", ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "users", "--entity-default", ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "users", "--entity-type", "clients", ordered=False)
    side.run(TOOL, "--describe", *ip, "10.0.0.1")
    for config in (
        "producer_byte_rate=fast",
        "producer_byte_rate=-1",
        "producer_byte_rate=0",
        "no_such_quota=1",
        "connection_creation_rate=1",
    ):
        side.run(TOOL, "--alter", *user, "anna", "--add-config", config)
    side.run(TOOL, "--alter", *ip, "no address", "--add-config", "connection_creation_rate=7")
    side.run(TOOL, "--alter", *ip, "10.0.0.1", "--add-config", "connection_creation_rate=0.5")
    side.run(TOOL, "--alter", *user, "anna", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    side.run(TOOL, "--alter", *user, "anna", "--delete-config", "producer_byte_rate")
    side.until(lambda said: "1024" not in str(said.out), TOOL, "--describe", *user, "anna")
    side.run(TOOL, "--alter", *user, "anna", *client, "app", "--delete-config", "request_percentage")
    side.run(TOOL, "--alter", *client, "app", "--delete-config", "controller_mutation_rate")
    for kind in ("users", "clients"):
        side.run(TOOL, "--alter", "--entity-type", kind, "--entity-default", "--delete-config", "producer_byte_rate")
    for which in (("--entity-name", "10.0.0.1"), ("--entity-default",)):
        side.run(TOOL, "--alter", "--entity-type", "ips", *which, "--delete-config", "connection_creation_rate")


def of_credentials(side: Side) -> None:
    user = ("--entity-type", "users", "--entity-name")
    side.run(TOOL, "--alter", *user, "berta", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    side.run(TOOL, "--alter", *user, "berta", "--add-config", "SCRAM-SHA-512=[password=secret]")
    side.run(TOOL, "--alter", *user, "berta", "--add-config", "SCRAM-SHA-256=[password=secret],SCRAM-SHA-512=[password=secret]")
    side.until(lambda said: "8192" in str(said.out), TOOL, "--describe", *user, "berta")
    side.run(TOOL, "--alter", *user, "berta", "--add-config", "SCRAM-SHA-256=[iterations=4,password=secret]")
    side.run(TOOL, "--alter", *user, "berta", "--add-config", "SCRAM-SHA-256=[iterations=100000,password=secret]")
    side.run(TOOL, "--alter", *user, "berta", "--delete-config", "SCRAM-SHA-256")
    side.until(lambda said: "8192" not in str(said.out), TOOL, "--describe", *user, "berta")
    side.run(TOOL, "--alter", *user, "berta", "--delete-config", "SCRAM-SHA-256")
    side.run(TOOL, "--describe", *user, "nobody")
    side.run(TOOL, "--alter", "--entity-type", "users", "--entity-default", "--add-config", "SCRAM-SHA-256=[password=secret]")


def of_groups(side: Side) -> None:
    group = ("--entity-type", "groups", "--entity-name", "conf-group")
    side.run(TOOL, "--describe", *group, ordered=False)
    side.run(TOOL, "--alter", *group, "--add-config", "consumer.session.timeout.ms=46000,share.auto.offset.reset=earliest")
    side.until(lambda said: "46000" in str(said.out), TOOL, "--describe", *group, ordered=False)
    side.run(TOOL, "--describe", *group, "--all", ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "groups", ordered=False)
    for config in (
        "consumer.session.timeout.ms=1",
        "consumer.session.timeout.ms=soon",
        "no.such.config=1",
        "share.auto.offset.reset=middle",
    ):
        side.run(TOOL, "--alter", *group, "--add-config", config)
    side.run(TOOL, "--alter", *group, "--delete-config", "consumer.session.timeout.ms,share.auto.offset.reset")
    side.until(lambda said: "46000" not in str(said.out), TOOL, "--describe", *group, ordered=False)


def of_client_metrics(side: Side) -> None:
    metrics = ("--entity-type", "client-metrics", "--entity-name", "sub")
    side.run(TOOL, "--alter", *metrics, "--add-config", "metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.],interval.ms=30000")
    side.until(lambda said: "30000" in str(said.out), TOOL, "--describe", *metrics, ordered=False)
    side.run(TOOL, "--describe", "--entity-type", "client-metrics", ordered=False)
    for config in ("interval.ms=5", "interval.ms=soon", "no.such.config=1", "match=[client_id]", "match=[client_id=[a]"):
        side.run(TOOL, "--alter", *metrics, "--add-config", config)
    side.run(TOOL, "--alter", *metrics, "--delete-config", "metrics,interval.ms")
    tool = "ClientMetricsCommand"
    side.run(
        tool,
        "--alter",
        "--name",
        "by-tool",
        "--metrics",
        "org.apache.kafka.producer.",
        "--interval",
        60000,
        "--match",
        "client_id=a,client_software_name=b",
    )
    side.until(lambda said: "60000" in str(said.out), tool, "--describe", "--name", "by-tool", ordered=False)
    side.run(tool, "--describe", ordered=False)
    side.run(tool, "--list", ordered=False)
    side.run(tool, "--alter", "--name", "by-tool", "--interval", "")
    side.run(tool, "--delete", "--name", "by-tool")
    side.run(tool, "--delete", "--name", "absent")
    side.run(tool, "--describe", "--name", "absent")


CHAPTERS = (of_topics, of_brokers, of_loggers, of_clients, of_credentials, of_groups, of_client_metrics)
