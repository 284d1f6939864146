"""Members of share groups: KafkaShareConsumers of the Java client in a program that can be killed.

join MEMBER GROUP TOPIC name=value ...     properties of the consumer
poll MEMBER COUNT MILLISECONDS             record PARTITION OFFSET VALUE DELIVERIES, until there are so many or the time is over
say MEMBER PARTITION OFFSET TYPE           ACCEPT, RELEASE, REJECT, RENEW
commit MEMBER                              committed PARTITION WHY, for each partition that was spoken of; WHY is empty if it is done
leave MEMBER
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.spoken_clients import building
from tests.support.command_program import CommandProgram
from tests.support.java import SHORT_LIVED, class_data, kafka_jars, require_java

PROGRAM = Path(__file__).parent / "java" / "ShareMembers.java"
EXPLICIT = {"share.acknowledgement.mode": "explicit"}
POLL_MS = 60_000  #: at the most


class Shared(NamedTuple):
    """A record that a member got."""

    partition: int
    offset: int
    value: str
    delivery_count: int


class ShareMembers(CommandProgram):
    """One JVM with any number of members."""

    def __init__(self, bootstrap: str) -> None:
        require_java()
        jars = kafka_jars()
        with building("ShareMembers", [PROGRAM]) as folder:
            if not (folder / "ShareMembers.class").exists():
                if shutil.which("javac") is None:
                    pytest.skip("javac is not installed")
                subprocess.run(["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(PROGRAM)], check=True)
        super().__init__(["java", *SHORT_LIVED, *class_data(jars), "-cp", f"{jars}/*:{folder}", "ShareMembers", bootstrap])

    def join(self, member: str, group: str, topic: str, **settings: str) -> None:
        self.ask("join", member, group, topic, *(f"{name}={value}" for name, value in settings.items()))

    def poll(self, member: str, count: int, milliseconds: int = POLL_MS) -> list[Shared]:
        lines = [line.split("\t") for line in self.ask("poll", member, count, milliseconds)]
        return [Shared(int(partition), int(offset), value, int(deliveries)) for _, partition, offset, value, deliveries in lines]

    def say(self, member: str, record: Shared, kind: str) -> None:
        self.ask("say", member, record.partition, record.offset, kind)

    def commit(self, member: str) -> list[str]:
        """What could not be done."""
        return [why for _, _, why in (line.split("\t") for line in self.ask("commit", member)) if why]

    def leave(self, member: str) -> None:
        self.ask("leave", member)
