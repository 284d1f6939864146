"""Records in and out, and where they are: the console tools, GetOffsetShell, DeleteRecordsCommand, LogDirsCommand, DumpLogSegments."""

from __future__ import annotations

import json

from tests.differential.tools.transcript import RATES, Side

PRODUCER, CONSUMER, OFFSETS = "ConsoleProducer", "ConsoleConsumer", "GetOffsetShell"
EVERYTHING = [
    word
    for name in ("timestamp", "key", "offset", "epoch", "partition", "headers", "value")
    for word in ("--formatter-property", f"print.{name}=true")
]


def console(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "talk")
    at = ("--topic", "talk")
    side.run(PRODUCER, *at, stdin="one\ntwo\n\n")
    parse = [word for name in ("parse.key=true", "parse.headers=true", "null.marker=NULL") for word in ("--reader-property", name)]
    side.run(PRODUCER, *at, *parse, "--sync", stdin="h:1,i:2\tkey\tvalue\nNULL\tNULL\tNULL\nh:3\tkey\tNULL\n")
    side.run(PRODUCER, *at, "--reader-property", "parse.key=true", stdin="no key here\n")
    for codec in ("gzip", "snappy", "lz4", "zstd", "zip"):
        side.run(PRODUCER, *at, "--compression-codec", codec, "--request-required-acks", "1", stdin=f"by {codec}\n")
    side.run(PRODUCER, *at, "--request-required-acks", "0", stdin="no answer\n")
    side.run(PRODUCER, *at, "--command-property", "enable.idempotence=false", stdin="not idempotent\n")
    side.run(PRODUCER, *at, "--command-property", "max.request.size=3000000", stdin="x" * 2_000_000)
    side.run(PRODUCER, "--topic", "bad name", "--max-block-ms", 2000, stdin="a\n")
    side.run(PRODUCER, "--topic", "made-by-writing", stdin="a\n")
    from_0 = (*at, "--partition", 0, "--timeout-ms", 15000)
    side.run(CONSUMER, *from_0, "--offset", "earliest", "--max-messages", 12)
    side.run(CONSUMER, *from_0, "--offset", 3, "--max-messages", 3, *EVERYTHING)
    side.run(
        CONSUMER,
        *from_0,
        "--offset",
        "earliest",
        "--max-messages",
        4,
        "--formatter",
        "org.apache.kafka.tools.consumer.LoggingMessageFormatter",
    )
    side.run(CONSUMER, *at, "--from-beginning", "--max-messages", 2, "--isolation-level", "read_committed", "--timeout-ms", 15000)
    side.run(CONSUMER, *at, "--group", "talkers", "--from-beginning", "--max-messages", 2, "--timeout-ms", 15000)
    side.run(CONSUMER, *at, "--group", "talkers", "--from-beginning", "--max-messages", 2, "--timeout-ms", 15000)
    side.run(CONSUMER, "--include", "tal[kx]", "--from-beginning", "--max-messages", 1, "--timeout-ms", 15000)
    side.run(CONSUMER, "--topic", "talk", "--partition", 7, "--offset", 0, "--timeout-ms", 1500)
    side.run(CONSUMER, "--topic", "bad name", "--timeout-ms", 1500)


def get_offset_shell(side: Side) -> None:
    for name in ("offs-a", "offs-b"):
        side.run("TopicCommand", "--create", "--topic", name, "--partitions", 3)
    times = ("--message-create-time", 1_700_000_000_000, "--throughput", -1, "--acks", 1, "--max-messages", 60, "--repeating-keys", 7)
    side.run("VerifiableProducer", "--topic", "offs-a", *times, ordered=False, drop=RATES)
    a, b = ("--topic", "offs-a"), ("--topic", "offs-b")
    for when in (
        "-1",
        "-2",
        "-3",
        "-4",
        "-5",
        "-6",
        "latest",
        "earliest",
        "max-timestamp",
        "earliest-local",
        "latest-tiered",
        "earliest-pending-upload",
    ):
        side.run(OFFSETS, *a, "--partitions", "0,1,2", "--time", when, ordered=False)
    for when in ("1600000000000", "1900000000000", "-7", "noon"):
        side.run(OFFSETS, "--topic-partitions", "offs-a:0-3", "--time", when, ordered=False)
    side.run(OFFSETS, "--topic", "offs-.*")
    side.run(OFFSETS, *b)
    side.run(OFFSETS, *b, "--time", "-3")
    side.run(OFFSETS, *a, "--partitions", "7")
    side.run(OFFSETS, *a, "--partitions", "zero")
    side.run(OFFSETS, "--topic-partitions", "offs-a:1,offs-b:-2,offs-[ab]:2-")
    side.run(OFFSETS, "--topic", "absent")
    side.run(OFFSETS, "--topic", "__consumer_offsets", "--exclude-internal-topics")


def deleting(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "less", "--partitions", 2)
    side.run(
        PRODUCER, "--topic", "less", "--reader-property", "parse.key=true", stdin="".join(f"k{number}\tv{number}\n" for number in range(20))
    )
    side.run("TopicCommand", "--create", "--topic", "kept", "--config", "cleanup.policy=compact")

    def delete(*partitions: tuple[str, int, int]) -> None:
        rows = [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in partitions]
        name = "-".join(map(str, [word for row in partitions for word in row]))
        side.run(
            "DeleteRecordsCommand",
            "--offset-json-file",
            side.file(f"{name}.json", json.dumps({"partitions": rows, "version": 1})),
            ordered=False,
        )

    delete(("less", 0, 3))
    delete(("less", 0, 2))
    delete(("less", 0, 1000))
    delete(("less", 1, -1))
    delete(("less", 0, -2))
    delete(("kept", 0, 0))
    side.run("DeleteRecordsCommand", "--offset-json-file", side.file("none.json", '{"partitions": [], "version": 1}'))
    side.run(
        "DeleteRecordsCommand",
        "--offset-json-file",
        side.file("twice.json", json.dumps({"partitions": [{"topic": "less", "partition": 0, "offset": 1}] * 2, "version": 1})),
    )
    side.run("DeleteRecordsCommand", "--offset-json-file", side.file("not.json", "not json"))
    side.run("DeleteRecordsCommand", "--offset-json-file", side.file("future.json", '{"partitions": [], "version": 2}'))
    side.run(OFFSETS, "--topic", "less", "--time", "-2")
    side.run(OFFSETS, "--topic", "less")
    side.run(CONSUMER, "--topic", "less", "--partition", 0, "--offset", "earliest", "--max-messages", 2, "--timeout-ms", 15000)


def log_dirs(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "placed", "--partitions", 2)
    side.run(PRODUCER, "--topic", "placed", "--reader-property", "parse.key=true", stdin="a\tb\n")
    side.until(lambda said: "placed-1" in str(said.out), "LogDirsCommand", "--describe", "--topic-list", "placed")
    side.run("LogDirsCommand", "--describe", "--topic-list", "placed", "--broker-list", side.node_id)
    side.run("LogDirsCommand", "--describe", "--topic-list", "absent")
    side.run("LogDirsCommand", "--describe", "--broker-list", 9)


def dump_log_segments(side: Side) -> None:
    """Two segments, of a record each: the first one is closed, so its indexes are as long as what they hold."""
    side.run("TopicCommand", "--create", "--topic", "dumped", "--config", "segment.bytes=1048576")
    side.run(PRODUCER, "--topic", "dumped", "--sync", stdin=f"{'a' * 600_000}\n{'b' * 600_000}\n")
    at = side.data_dir / "dumped-0"
    first = f"{at}/00000000000000000000"
    for words in ((), ("--deep-iteration",), ("--verify-index-only",), ("--index-sanity-check",)):
        side.run("DumpLogSegments", "--files", f"{first}.log,{first}.index,{first}.timeindex", *words, offline=True)
    side.run("DumpLogSegments", "--files", f"{at}/00000000000000000001.log,{at}/00000000000000000001.snapshot", offline=True)


CHAPTERS = (console, get_offset_shell, deleting, log_dirs, dump_log_segments)
