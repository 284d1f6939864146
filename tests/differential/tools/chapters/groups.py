"""ConsumerGroupCommand and GroupsCommand."""

from __future__ import annotations

from tests.differential.tools.transcript import Side

TOOL = "ConsumerGroupCommand"


def _fill(side: Side, topic: str, count: int = 12, partitions: int = 2) -> None:
    side.run("TopicCommand", "--create", "--topic", topic, "--partitions", partitions)
    records = "".join(f"k{number}\tv{number}\n" for number in range(count))
    side.run("ConsoleProducer", "--topic", topic, "--reader-property", "parse.key=true", stdin=records)


def _read(side: Side, topic: str, group: str, count: int, *more: str) -> None:
    """Commit what was read, and leave."""
    words = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", count, "--timeout-ms", 20000)
    side.run("ConsoleConsumer", *words, *more, ordered=False)


def _begin(side: Side, handle: str, topic: str, group: str, count: int, *more: str) -> None:
    """A member that stays; it has read `count` records when this returns."""
    side.start(handle, "ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", *more)
    side.wait(handle, lambda said: len(said.out) >= count)


def _look(side: Side, group: str) -> None:
    for words in ((), ("--offsets", "--verbose"), ("--members",), ("--members", "--verbose"), ("--state",), ("--state", "--verbose")):
        side.run(TOOL, "--describe", "--group", group, *words, ordered=False)


def empty(side: Side) -> None:
    _fill(side, "left")
    _read(side, "left", "left-group", 12)
    _look(side, "left-group")
    _look(side, "absent")
    side.run(TOOL, "--list", ordered=False)
    for words in (
        ("--state",),
        ("--state", "Empty"),
        ("--state", "stable,empty"),
        ("--state", "broken"),
        ("--type",),
        ("--type", "classic"),
        ("--type", "consumer"),
        ("--type", "share"),
        ("--type", "odd"),
        ("--state", "--type"),
    ):
        side.run(TOOL, "--list", *words, ordered=False)
    side.run(TOOL, "--describe", "--all-groups", "--state", ordered=False)
    for types in ((), ("--group-type", "classic"), ("--consumer",), ("--share",), ("--protocol", "consumer"), ("--group-type", "odd")):
        side.run("GroupsCommand", "--list", *types, ordered=False)


def resetting(side: Side) -> None:
    for topic in ("back-a", "back-b"):
        _fill(side, topic)
        _read(side, topic, "back", 12)
    one, all_topics = ("--reset-offsets", "--group", "back", "--topic", "back-a"), ("--reset-offsets", "--group", "back", "--all-topics")
    for where in (
        ("--to-earliest",),
        ("--to-latest",),
        ("--to-current",),
        ("--to-offset", 2),
        ("--to-offset", 1000),
        ("--to-offset", -5),
        ("--shift-by", -2),
        ("--shift-by", 3),
        ("--shift-by", -1000),
        ("--by-duration", "PT1H"),
        ("--by-duration", "PT0S"),
        ("--by-duration", "1h"),
        ("--to-datetime", "2020-01-01T00:00:00.000"),
        ("--to-datetime", "2199-01-01T00:00:00.000Z"),
        ("--to-datetime", "yesterday"),
    ):
        side.run(TOOL, *one, *where, "--dry-run", ordered=False)
    side.run(TOOL, *all_topics, "--to-earliest", ordered=False)
    side.run(TOOL, *all_topics, "--to-earliest", "--execute", ordered=False)
    side.run(TOOL, "--describe", "--group", "back", ordered=False)
    side.run(
        TOOL,
        "--reset-offsets",
        "--group",
        "back",
        "--topic",
        "back-a:1",
        "--topic",
        "back-b:0",
        "--to-offset",
        3,
        "--execute",
        ordered=False,
    )
    side.run(TOOL, "--describe", "--group", "back", ordered=False)
    export = side.run(TOOL, *all_topics, "--to-current", "--dry-run", "--export", ordered=False)
    plan = side.file("plan.csv", "\n".join(line for line in export.out if line.count(",") == 2) + "\n")
    side.run(TOOL, *all_topics[:3], "--from-file", plan, "--dry-run", ordered=False)
    side.run(TOOL, *all_topics[:3], "--from-file", side.file("bad.csv", "back-a,0\n"), "--execute", ordered=False)
    side.run(TOOL, *all_topics[:3], "--from-file", side.file("words.csv", "back-a,zero,1\n"), "--execute", ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", "back", "--topic", "absent", "--to-earliest", "--execute")
    side.run(TOOL, "--reset-offsets", "--group", "back", "--topic", "back-a:7", "--to-earliest", "--execute")
    side.run(TOOL, "--reset-offsets", "--group", "brand-new", "--topic", "back-a", "--to-latest", "--execute", ordered=False)
    side.run(TOOL, "--describe", "--group", "brand-new", ordered=False)
    side.run(TOOL, "--describe", "--group", "brand-new", "--state")


def deleting(side: Side) -> None:
    for topic in ("drop-a", "drop-b"):
        _fill(side, topic)
        _read(side, topic, "drop", 12)
    side.run(TOOL, "--delete-offsets", "--group", "drop", "--topic", "drop-a", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "drop", "--topic", "drop-a", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "drop", "--topic", "drop-b:1", "--topic", "absent:0", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "drop", "--topic", "drop-b:7", ordered=False)
    side.run(TOOL, "--delete-offsets", "--group", "absent", "--topic", "drop-b", ordered=False)
    side.run(TOOL, "--describe", "--group", "drop", ordered=False)
    side.run(TOOL, "--delete", "--group", "drop", "--group", "absent", ordered=False)
    side.run(TOOL, "--delete", "--group", "drop")
    side.run(TOOL, "--describe", "--group", "drop")


def _living(side: Side, name: str, *protocol: str) -> None:
    """`protocol`: properties of the member."""
    group, properties = f"{name}-group", [word for each in protocol for word in ("--command-property", each)]
    _fill(side, name)
    _begin(side, f"{name}-member", name, group, 12, *properties, "--command-property", "auto.commit.interval.ms=50")
    side.until(lambda said: sum(line.split()[5:6] == ["0"] for line in said.out) == 2, TOOL, "--describe", "--group", group, ordered=False)
    _look(side, group)
    side.run(TOOL, "--list", "--state", "stable", ordered=False)
    side.run("GroupsCommand", "--list", "--consumer", ordered=False)
    side.run(TOOL, "--delete", "--group", group)
    side.run(TOOL, "--delete-offsets", "--group", group, "--topic", name, ordered=False)
    side.run(TOOL, "--reset-offsets", "--group", group, "--topic", name, "--to-earliest", "--execute", ordered=False)
    side.stop(f"{name}-member", ordered=False)
    side.until(lambda said: "Empty" in str(said.out), TOOL, "--describe", "--group", group, "--state")
    side.run(TOOL, "--describe", "--group", group, ordered=False)
    side.run(TOOL, "--describe", "--group", group, "--members")


def living_classic(side: Side) -> None:
    _living(side, "classic", "group.protocol=classic")


def living_static(side: Side) -> None:
    """A static member does not leave; its session ends."""
    strategy = "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    times = ("session.timeout.ms=2000", "heartbeat.interval.ms=300")
    _living(side, "static", "group.protocol=classic", "group.instance.id=instance", strategy, *times)


def living_consumer(side: Side) -> None:
    _living(side, "modern", "group.protocol=consumer")


CHAPTERS = (empty, resetting, deleting, living_classic, living_static, living_consumer)
