"""Kafka's command-line tools, many in one JVM (tests/clients/java/Tools.java): one runs in a tenth of a second instead of two."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.spoken_clients import HERE, building
from tests.support.command_program import CommandProgram
from tests.support.java import kafka_jars

#: Where a tool is, by the start of its name.
PACKAGES = {
    "ConfigCommand": "kafka.admin",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group",
    "ShareGroupCommand": "org.apache.kafka.tools.consumer.group",
    "StreamsGroupCommand": "org.apache.kafka.tools.streams",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer",
}


class Said(NamedTuple):
    """What a tool said: its standard output, its standard error, and its exit code; None while it runs, -1 where it does not end."""

    out: list[str]
    err: list[str]
    exit_code: int | None


class KafkaTools(CommandProgram):
    """The JVM; it starts here and ends with the context. `folder` gets the files that the tools read from their standard input."""

    def __init__(self, folder: Path, jvm_options: Sequence[str] = ()) -> None:
        jars = kafka_jars()
        tool_jars: list[str] = []
        other_jars: list[str] = []
        for jar in sorted(jars.glob("*.jar")):
            (tool_jars if jar.name.startswith(("kafka-tools-4", "kafka_2.13")) else other_jars).append(str(jar))
        source = HERE / "java" / "Tools.java"
        with building("Tools", [source]) as classes:
            if not (classes / "Tools.class").exists():
                if shutil.which("javac") is None:
                    pytest.skip("javac is not installed")
                subprocess.run(["javac", "--release", "11", "-cp", f"{jars}/*", "-d", str(classes), str(source)], check=True)
        memory = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"]
        hooks = ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        super().__init__(["java", *memory, *quiet, *hooks, *jvm_options, "-cp", ":".join([str(classes), *other_jars]), "Tools", *tool_jars])
        self._folder = folder
        self._inputs = 0

    def run(self, tool: str, *arguments: object, stdin: str = "") -> Said:
        """Run a tool, by its name without the package, to its end."""
        return _said(self.ask("run", self._input(stdin), _class_of(tool), *arguments))

    def start(self, handle: str, tool: str, *arguments: object, stdin: str = "") -> None:
        """Begin to run a tool, and do not wait."""
        self.ask("start", handle, self._input(stdin), _class_of(tool), *arguments)

    def said(self, handle: str) -> Said:
        """What a started tool has said until now."""
        return _said(self.ask("said", handle))

    def stop(self, handle: str) -> Said:
        """End a started tool as Ctrl-C would."""
        return _said(self.ask("stop", handle))

    def _input(self, stdin: str) -> Path | str:
        if not stdin:
            return ""
        self._inputs += 1
        path = self._folder / f"stdin-{self._inputs}"
        path.write_text(stdin)
        return path


def _class_of(tool: str) -> str:
    return f"{PACKAGES.get(tool, 'org.apache.kafka.tools')}.{tool}"


def _said(lines: Iterable[str]) -> Said:
    out: list[str] = []
    err: list[str] = []
    exit_code = None
    for line in lines:
        kind, _, text = line.partition(" ")
        match kind:
            case "out":
                out.append(text)
            case "err":
                err.append(text)
            case _:
                exit_code = int(text)
    return Said(out, err, exit_code)
