"""The tools that write and read much: performance tools, verifiable clients, what else was made for system tests."""

from __future__ import annotations

from tests.differential.tools.transcript import RATES, Side

AT = ("--bootstrap-server", "@")


def performance(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "perf", "--partitions", 2)
    size = ("--topic", "perf", "--num-records", 2000, "--record-size", 100, "--throughput", -1)
    side.run("ProducerPerformance", *AT, *size, figures=True)
    side.run("ProducerPerformance", *AT, *size, "--command-property", "compression.type=lz4", "acks=1", figures=True)
    side.run("ProducerPerformance", *AT, *size, "--transactional-id", "perf-tx", "--transaction-duration-ms", 20, figures=True)
    side.run("ProducerPerformance", *AT, *size, "--warmup-records", 100, figures=True)
    reading = ("--topic", "perf", "--num-records", 6000, "--timeout", 20000)
    side.run("ConsumerPerformance", *reading, "--group", "perf-group", "--hide-header", figures=True)
    side.run(
        "ConsumerPerformance",
        "--include",
        "per[f]",
        "--num-records",
        100,
        "--timeout",
        20000,
        "--group",
        "perf-more",
        "--show-detailed-stats",
        "--reporting-interval",
        100000,
        figures=True,
    )
    # EndToEndLatency reads a topic that it creates without waiting for it, and may fail on either broker where a topic is known late.
    side.run("TopicCommand", "--create", "--topic", "latency")
    side.run("EndToEndLatency", "@", "latency", 20, "all", 64, figures=True)
    side.until(lambda said: said.exit_code == 0, "GetOffsetShell", "--topic", "latency")


def verifiable(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "verify")
    side.run(
        "VerifiableProducer",
        "--topic",
        "verify",
        "--max-messages",
        50,
        "--repeating-keys",
        5,
        "--value-prefix",
        7,
        ordered=False,
        drop=RATES,
    )
    words = ("--topic", "verify", "--max-messages", 50)
    side.run("VerifiableConsumer", *words, "--group-id", "verify-classic", ordered=False)
    side.run("VerifiableConsumer", *words, "--group-id", "verify-modern", "--group-protocol", "consumer", ordered=False)
    side.run(
        "VerifiableConsumer", *words, "--group-id", "verify-static", "--group-instance-id", "one", "--session-timeout", 6000, ordered=False
    )
    side.run("ConsumerGroupCommand", "--describe", "--group", "verify-classic", ordered=False)


def compatibility(side: Side) -> None:
    names = (
        "offsets-for-times-supported",
        "cluster-id-supported",
        "create-topics-supported",
        "describe-acls-supported",
        "describe-configs-supported",
        "idempotent-producer-supported",
    )
    side.run("TopicCommand", "--create", "--topic", "compatible")
    answers = [word for name in names for word in (f"--{name}", True)]
    side.run(
        "ClientCompatibilityTest",
        *AT,
        "--topic",
        "compatible",
        *answers,
        "--expect-record-too-large-exception",
        "False",
        "--num-cluster-nodes",
        1,
    )


def streams_resetter(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "stream-in", "--partitions", 2)
    records = "".join(f"k{number}\tv{number}\n" for number in range(12))
    side.run("ConsoleProducer", "--topic", "stream-in", "--reader-property", "parse.key=true", stdin=records)
    side.run("TopicCommand", "--create", "--topic", "app-store-changelog")
    words = ("--topic", "stream-in", "--group", "app", "--from-beginning", "--max-messages", 12, "--timeout-ms", 20000)
    side.run("ConsoleConsumer", *words, ordered=False)
    reset = ("StreamsResetter", "--application-id", "app", "--input-topics", "stream-in")
    side.run(*reset, "--dry-run", ordered=False)
    side.run(*reset, "--to-offset", 2, ordered=False)
    side.run(*reset, "--shift-by", 1, "--force", ordered=False)
    side.run("StreamsResetter", "--application-id", "app", "--input-topics", "absent", ordered=False)
    side.until(lambda said: not any(said.out), "TopicCommand", "--list", "--topic", "app-.*")
    side.run("ConsumerGroupCommand", "--describe", "--group", "app", ordered=False)


CHAPTERS = (performance, verifiable, compatibility, streams_resetter)
