"""What Kafka's tools say of one broker, step by step, and where two brokers differ.

A chapter is a plain function over a `Side`. It runs once with each broker; its steps are compared in their order. What each broker draws
for itself (ids, ports, folders, times) and what the tools' JVM counts (client ids) is masked; blanks are one blank, because columns are as
wide as their widest value.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.kafka_tools import KafkaTools, Said

PATIENCE_S: Final = 30.0
RATES: Final = r'"avg_throughput":[^,}]+'  #: measured by VerifiableProducer; digits of it may look like a time, and be masked as one
CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  #: both brokers have it, so it is seen in answers

_MASKS: Final = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
        (r"\b1[6-9]\d{11}\b", "TIME"),
        (r"\bcrc: \d+", "crc: CRC"),  # of timestamps
        (r"\bproducerId: \d+", "producerId: N"),
        (r"CONTROLLER://[\w.]+:\d+", "CONTROLLER://HOST:PORT"),
        (r"\b(Epoch|HighWatermark):\s+\d+", r"\1: N"),  # of the metadata log
        (r"\blocalhost\b", "127.0.0.1"),
        (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.:,]\d+)?Z?", "TIME"),
        (r"\b(adminclient|producer|console-consumer|perf-consumer|console-share-consumer)-\d+", r"\1-N"),
        (r"\bconsumer-([\w.-]+)-\d+\b", r"consumer-\1-N"),
        (rf"(?<![\w-])(?!{CLUSTER_ID})[\w-]{{22}}(?![\w-])", "ID"),
        (r"\s+", " "),
    )
)
_NOISE: Final = re.compile(r"^\s+at [\w.$/]+|^\s+\.\.\. \d+ more|^The consumer rebalance protocol \(KIP-848\) is production-ready")

Until = Callable[[Said], bool]


class Step(NamedTuple):
    """One command and what was said, masked."""

    command: str
    lines: tuple[str, ...]
    is_ordered: bool


class Side:
    """One broker with the tools: runs them, and keeps what they say. `folder` is for the files that they read and write."""

    def __init__(self, tools: KafkaTools, bootstrap: str, folder: Path, *, data_dir: Path, node_id: int = 1) -> None:
        self.bootstrap, self.folder, self.data_dir, self.node_id = bootstrap, folder, data_dir, node_id
        self.steps: list[Step] = []
        self._tools = tools
        port = bootstrap.rpartition(":")[2]
        self._texts = {str(folder): "FOLDER", str(data_dir): "DATA", f"localhost:{port}": "HOST:PORT", bootstrap: "HOST:PORT", port: "PORT"}

    def run(
        self,
        tool: str,
        *arguments: object,
        stdin: str = "",
        ordered: bool = True,
        offline: bool = False,
        free: Sequence[str] = (),
        figures: bool = False,
        drop: str = "",
    ) -> Said:
        """Run a tool to its end.

        `@` among the arguments is the broker; without it, they begin with --bootstrap-server. `offline`: the tool needs no broker.
        Not `ordered`: its lines come out of a hash map. `free`: columns of its table that are not compared.
        `figures`: it measures, so numbers are not compared. `drop`: a pattern of what else is not.
        """
        result = self._tools.run(tool, *self._arguments(arguments, offline), stdin=stdin)
        self._keep(tool, arguments, result, ordered, free, drop=r"\d+(\.\d+)?" if figures else drop)
        if tool == "TopicCommand" and "--create" in arguments and result.exit_code == 0:
            self._wait_for_topic(arguments[arguments.index("--topic") + 1])
        return result

    def _wait_for_topic(self, topic: object) -> None:
        """Kafka answers before its broker has taken in what the controller decided."""
        words = ("--bootstrap-server", self.bootstrap, "--describe", "--topic", topic)
        deadline = time.monotonic() + PATIENCE_S
        while self._tools.run("TopicCommand", *words).exit_code != 0 and time.monotonic() < deadline:
            pass

    def until(self, enough: Until, tool: str, *arguments: object, ordered: bool = True, free: Sequence[str] = ()) -> Said:
        """Run a tool again and again until it says what is waited for; only the last time is kept."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            result = self._tools.run(tool, *self._arguments(arguments, offline=False))
            if enough(result) or time.monotonic() > deadline:
                self._keep(tool, arguments, result, ordered, free)
                return result

    def start(self, handle: str, tool: str, *arguments: object, stdin: str = "") -> None:
        """Begin to run a tool; what it says is kept when it is stopped."""
        self._tools.start(handle, tool, *self._arguments(arguments, offline=False), stdin=stdin)

    def wait(self, handle: str, enough: Until) -> Said:
        """Until a started tool has said enough, or has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            result = self._tools.said(handle)
            if enough(result) or result.exit_code is not None or time.monotonic() > deadline:
                return result
            time.sleep(0.02)

    def stop(self, handle: str, *, ordered: bool = True) -> Said:
        """End a started tool as Ctrl-C would."""
        result = self._tools.stop(handle)
        self._keep(f"(stop) {handle}", (), result, ordered, ())
        return result

    def file(self, name: str, text: str) -> Path:
        """A file for a tool to read."""
        path = self.folder / name
        path.write_text(text)
        return path

    def _arguments(self, arguments: Sequence[object], offline: bool) -> list[object]:
        if offline:
            return list(arguments)
        if "@" in arguments:
            return [self.bootstrap if argument == "@" else argument for argument in arguments]
        return ["--bootstrap-server", self.bootstrap, *arguments]

    def _keep(self, tool: str, arguments: Sequence[object], said: Said, ordered: bool, free: Sequence[str], *, drop: str = "") -> None:
        out, err = ([line for line in text if not _NOISE.search(line)] for text in (said.out, said.err))
        lines = [f"{kind}: {self.mask(line)}" for kind, text in (("out", _without_columns(out, free)), ("err", err)) for line in text]
        if drop:
            lines = [re.sub(drop, "", line) for line in lines]
        self.steps.append(Step(f"{tool} {self.mask(' '.join(map(str, arguments)))}".rstrip(), (*lines, f"exit {said.exit_code}"), ordered))

    def mask(self, line: str) -> str:
        """A line without what a broker draws for itself."""
        for text, name in self._texts.items():
            line = line.replace(text, name)
        for pattern, mask in _MASKS:
            line = pattern.sub(mask, line)
        return line.rstrip()


def _without_columns(lines: list[str], free: Sequence[str]) -> list[str]:
    """A table whose cells are set apart by tabs, without the values of some columns."""
    names: list[str] = []
    rows = []
    for line in lines:
        cells = line.split("\t")
        if free and not names and len(cells) > 1:
            names = [cell.strip() for cell in cells]
        elif names and len(cells) >= len(names):
            cells = ["*" if name in free else cell for name, cell in zip(names, cells, strict=False)]
        rows.append("\t".join(cells))
    return rows


class Difference(NamedTuple):
    """A step in which the two brokers differ; the lines that only one of them has."""

    command: str
    ours: list[str]
    kafkas: list[str]

    def __str__(self) -> str:
        return "\n".join([f"$ {self.command}", *(f"  ours   {line}" for line in self.ours), *(f"  kafka  {line}" for line in self.kafkas)])


def differences(ours: Sequence[Step], kafkas: Sequence[Step]) -> list[Difference]:
    """Where two runs of one chapter differ."""
    found = []
    for our, kafka in zip(ours, kafkas, strict=True):
        left, right = (list(step.lines) if step.is_ordered else sorted(step.lines) for step in (our, kafka))
        lines = list(unified_diff(left, right, n=0, lineterm=""))[2:]
        if lines:
            only = [[line[1:] for line in lines if line.startswith(sign)] for sign in "-+"]
            found.append(Difference(kafka.command, *only))
    return found
