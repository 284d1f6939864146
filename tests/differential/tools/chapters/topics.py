"""TopicCommand."""

from __future__ import annotations

from tests.differential.tools.transcript import Side

TOOL = "TopicCommand"


def creating(side: Side) -> None:
    side.run(TOOL, "--create", "--topic", "plain")
    side.run(TOOL, "--create", "--topic", "three", "--partitions", 3, "--replication-factor", 1)
    side.run(TOOL, "--create", "--topic", "configured", "--config", "retention.ms=1000", "--config", "cleanup.policy=compact,delete")
    side.run(TOOL, "--create", "--topic", "assigned", "--replica-assignment", "1,1,1")
    side.run(TOOL, "--create", "--topic", "three")
    side.run(TOOL, "--create", "--topic", "three", "--if-not-exists")
    side.run(TOOL, "--create", "--topic", "with.dots")
    side.run(TOOL, "--create", "--topic", "with_dots")
    for name in ("bad name", ".", "..", "a" * 250, "a/b", ""):
        side.run(TOOL, "--create", "--topic", name)
    for count in (0, -1, "three"):
        side.run(TOOL, "--create", "--topic", "counted", "--partitions", count)
    for count in (0, 2, 40000):
        side.run(TOOL, "--create", "--topic", "replicated", "--replication-factor", count)
    for config in (
        "retention.ms=soon",
        "retention.ms=-2",
        "no.such.config=1",
        "cleanup.policy=keep",
        "min.insync.replicas=0",
        "retention.ms",
    ):
        side.run(TOOL, "--create", "--topic", "misconfigured", "--config", config)
    for assignment in ("7", "1:1", "1,", "1:7", "x"):
        side.run(TOOL, "--create", "--topic", "misassigned", "--replica-assignment", assignment)


def looking(side: Side) -> None:
    side.run(TOOL, "--create", "--topic", "look-a", "--partitions", 2)
    side.run(TOOL, "--create", "--topic", "look-b", "--config", "segment.bytes=1048576")
    side.run(TOOL, "--list", "--topic", "look-.*")
    side.run(TOOL, "--list", "--exclude-internal", "--topic", "look.*")
    side.run(TOOL, "--list", "--topic", "absent")
    said = side.until(lambda said: said.exit_code == 0, TOOL, "--describe", "--topic", "look-a")
    side.run(TOOL, "--describe", "--topic", "look-.*", ordered=False)
    side.run(TOOL, "--describe", "--topic", "look-a", "--partition-size-limit-per-response", 1)
    topic_id = said.out[0].split("TopicId: ")[1].split()[0] if said.out else ""
    side.run(TOOL, "--describe", "--topic-id", topic_id)
    side.run(TOOL, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAFQ")
    side.run(TOOL, "--describe", "--topic-id", "not-an-id")
    side.run(TOOL, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAFQ", "--if-exists")
    side.run(TOOL, "--describe", "--topic", "absent")
    side.run(TOOL, "--describe", "--topic", "absent", "--if-exists")
    side.run(TOOL, "--describe", "--topic", "bad name")
    side.run(TOOL, "--describe", "--topic", "look-.*", "--topics-with-overrides")
    for which in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        side.run(TOOL, "--describe", "--topic", "look-.*", f"--{which}-partitions")


def altering(side: Side) -> None:
    side.run(TOOL, "--create", "--topic", "grows")
    side.run(TOOL, "--alter", "--topic", "grows", "--partitions", 4)
    side.run(TOOL, "--alter", "--topic", "grows", "--partitions", 4)
    side.run(TOOL, "--alter", "--topic", "grows", "--partitions", 2)
    side.run(TOOL, "--alter", "--topic", "grows", "--partitions", 0)
    side.run(TOOL, "--alter", "--topic", "grows", "--partitions", 5, "--replica-assignment", "1,1,1,1,1")
    side.run(TOOL, "--alter", "--topic", "grows", "--partitions", 6, "--replica-assignment", "1,1,1,1,1,9")
    side.run(TOOL, "--alter", "--topic", "absent", "--partitions", 4)
    side.run(TOOL, "--alter", "--topic", "absent", "--partitions", 4, "--if-exists")
    side.until(lambda said: any("PartitionCount: 5" in line for line in said.out), TOOL, "--describe", "--topic", "grows")


def deleting(side: Side) -> None:
    for name in ("gone-1", "gone-2", "gone-3"):
        side.run(TOOL, "--create", "--topic", name)
    side.run(TOOL, "--delete", "--topic", "gone-1")
    side.run(TOOL, "--delete", "--topic", "gone-[23]")
    side.until(lambda said: not any(said.out), TOOL, "--list", "--topic", "gone-.*")
    side.run(TOOL, "--delete", "--topic", "gone-1")
    side.run(TOOL, "--delete", "--topic", "gone-1", "--if-exists")


CHAPTERS = (creating, looking, altering, deleting)
