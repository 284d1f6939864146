"""Our tools say what Kafka's own said to the same commands, on stdout and by their exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from minibroker.cli.kafka_tools.main import run_tool
from tests.cli.kafka_tools.conversation import CONVERSATION, GOLDEN, Command, Said, by_partition, converse
from tests.support.broker_process import BrokerProcess


def test_they_say_what_kafkas_tools_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    broker = BrokerProcess(tmp_path, "--set", "offsets.topic.num.partitions=1")

    def say(command: Command) -> Said:
        stdin = tmp_path / "stdin"
        stdin.write_text(command.stdin)
        with stdin.open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            try:
                code = run_tool(command.tool, command.arguments(broker.bootstrap))
            except SystemExit as end:
                code = int(end.code or 0)
        sys.stdout.flush()
        return Said(capfd.readouterr().out, code)

    try:
        ours = converse(say)
    finally:
        broker.kill()
    golden = json.loads(GOLDEN.read_text())["said"]
    assert len(golden) == len(CONVERSATION)
    different = [
        f"$ {command}\nKafka's: {theirs['stdout']}[{theirs['exit_code']}]\nours: {said.stdout}[{said.exit_code}]"
        for (command, said), theirs in zip(ours, golden, strict=True)
        if (command, *said) != (theirs["command"], theirs["stdout"], theirs["exit_code"])
    ]
    assert different == [], "\n\n".join(different)


def test_order_counts_within_a_partition_only() -> None:
    a0, a1, b0 = "T\tPartition:0\tOffset:0\n", "T\tPartition:0\tOffset:1\n", "T\tPartition:1\tOffset:0\n"
    assert by_partition(b0 + a0 + a1) == by_partition(a0 + b0 + a1) == a0 + a1 + b0
    assert by_partition(b0 + a1 + a0) != a0 + a1 + b0
    assert by_partition("v2\nv1\n") == "v2\nv1\n"
    assert by_partition(b0 + "words\n" + a0) == b0 + "words\n" + a0
