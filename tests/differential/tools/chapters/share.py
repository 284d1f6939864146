"""ShareGroupCommand, ConsoleShareConsumer, VerifiableShareConsumer, ShareConsumerPerformance."""

from __future__ import annotations

from tests.differential.tools.transcript import Side

TOOL = "ShareGroupCommand"


def _fill(side: Side, topic: str, *groups: str, partitions: int = 2) -> None:
    """A topic with twelve records, and groups that begin at its start."""
    side.run("TopicCommand", "--create", "--topic", topic, "--partitions", partitions)
    records = "".join(f"k{number}\tv{number}\n" for number in range(12))
    side.run("ConsoleProducer", "--topic", topic, "--reader-property", "parse.key=true", stdin=records)
    for group in groups:
        side.run(
            "ConfigCommand",
            "--alter",
            "--entity-type",
            "groups",
            "--entity-name",
            group,
            "--add-config",
            "share.auto.offset.reset=earliest",
        )


def _look(side: Side, group: str) -> None:
    for words in ((), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose"), ("--state",), ("--state", "--verbose")):
        side.run(TOOL, "--describe", "--group", group, *words, ordered=False)


def living(side: Side) -> None:
    _fill(side, "shared", "sharers")
    side.start("sharer", "ConsoleShareConsumer", "--topic", "shared", "--group", "sharers")
    side.wait("sharer", lambda said: len(said.out) >= 12)
    done = lambda said: sum(line.split()[-1:] == ["0"] for line in said.out) == 2  # noqa: E731  a lag of 0, twice
    side.until(done, TOOL, "--describe", "--group", "sharers", ordered=False)
    _look(side, "sharers")
    for words in ((), ("--state",), ("--state", "stable"), ("--state", "empty"), ("--state", "odd")):
        side.run(TOOL, "--list", *words, ordered=False)
    side.run("GroupsCommand", "--list", "--share", ordered=False)
    side.run("ConsumerGroupCommand", "--list", "--type", "share")
    side.run("ConsumerGroupCommand", "--describe", "--group", "sharers")
    side.run(TOOL, "--delete", "--group", "sharers")
    side.run(TOOL, "--delete-offsets", "--group", "sharers", "--topic", "shared", ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", "sharers", "--topic", "shared", "--to-earliest", "--execute", ordered=False)
    side.stop("sharer", ordered=False)
    side.until(lambda said: "Empty" in str(said.out), TOOL, "--describe", "--group", "sharers", "--state")
    _look(side, "sharers")


def empty(side: Side) -> None:
    _fill(side, "offered", "takers")
    words = ("--topic", "offered", "--group", "takers", "--timeout-ms", 20000)
    side.run("ConsoleShareConsumer", *words, "--max-messages", 12, ordered=False)
    side.until(lambda said: "Empty" in str(said.out), TOOL, "--describe", "--group", "takers", "--state")
    for where in (("--to-earliest",), ("--to-latest",), ("--to-datetime", "2020-01-01T00:00:00.000"), ("--to-datetime", "yesterday")):
        side.run(TOOL, "--reset-offsets", "--group", "takers", "--topic", "offered", *where, "--dry-run", ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", "takers", "--all-topics", "--to-earliest", "--execute", ordered=False)
    side.run(TOOL, "--describe", "--group", "takers", ordered=False)
    side.run("ConsoleShareConsumer", *words, "--max-messages", 12, "--reject", ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", "absent", "--topic", "offered", "--to-earliest", "--execute", ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", "takers", "--topic", "absent", "--to-earliest", "--execute", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "takers", "--topic", "absent", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "takers", "--topic", "offered", ordered=False)
    side.run(TOOL, "--describe", "--group", "takers", ordered=False)
    side.run(TOOL, "--delete", "--group", "takers", "--group", "absent", ordered=False)
    side.run(TOOL, "--describe", "--group", "takers")
    _look(side, "absent")


def verifiable(side: Side) -> None:
    _fill(side, "share-verified", "verifiers", "performers", partitions=1)
    words = ("--topic", "share-verified", "--max-messages", 12)
    side.run("VerifiableShareConsumer", *words, "--group-id", "verifiers", "--acknowledgement-mode", "sync", ordered=False)
    reading = ("--topic", "share-verified", "--num-records", 12, "--timeout", 20000)
    side.run("ShareConsumerPerformance", *reading, "--group", "performers", "--hide-header", figures=True)


CHAPTERS = (living, empty, verifiable)
