"""The `minibroker` command itself: what it imports, how it fails, completion."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

import minibroker
from minibroker.cli import main as entry
from minibroker.cli.failures import failure_of
from minibroker.client.errors import BrokerUnreachable, TimedOut
from minibroker.compilation import build
from minibroker.errors import ConfigurationError, CorruptLogError, RequestTimedOut, TopicAlreadyExists
from tests.cli.conftest import Commands


def test_version_and_help(offline: Commands) -> None:
    assert offline("--version").out == f"minibroker {minibroker.__version__} ({build()})\n"
    help_text = offline("--help").out
    assert all(name in help_text for name in entry.COMMANDS)
    assert "Examples:" in help_text


@pytest.mark.parametrize("name", sorted(entry.COMMANDS))
def test_each_command_has_help_with_examples(offline: Commands, name: str) -> None:
    text = offline(name, "--help").out
    assert text.startswith(f"Usage: minibroker {name} ")
    assert name == "serve" or "Examples:" in text


@pytest.mark.parametrize("name", sorted(entry.COMMANDS))
def test_listing_matches_the_command_help(name: str) -> None:
    command = entry.main.get_command(click.Context(entry.main), name)
    assert command is not None
    assert command.get_short_help_str(limit=500) == entry.COMMANDS[name][2]


def test_serve_pays_for_no_other_command() -> None:
    program = "import sys, minibroker.cli.main as m, click; m.main.get_command(click.Context(m.main), 'serve'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = [name for name in loaded if name.split(".")[0] in ("yaml", "tabulate") or name.startswith("minibroker.client")]
    assert heavy == []
    assert sorted(name for name in loaded if name.startswith("minibroker.cli.")) == [
        "minibroker.cli.http_sites",
        "minibroker.cli.main",
        "minibroker.cli.secure",
        "minibroker.cli.serve",
        "minibroker.cli.streams",
    ]


def test_a_misspelt_option(offline: Commands) -> None:
    output = offline("log-dirs", "--broker", "1", code=2).err
    assert output == "Error: No such option '--broker'. Did you mean '--broker-id'? Try 'minibroker log-dirs --help'.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topic", "list"), "No such command 'topic'. Did you mean 'topics'? Try 'minibroker --help'."),
        (("lab", "fault"), "No such command 'fault'. Did you mean 'faults'? Try 'minibroker lab --help'."),
        (
            ("-b", "localhost:9092", "topics", "list"),
            "No such option '-b' before a command: write it after the command. Try 'minibroker --help'.",
        ),
        (
            ("lab", "info", "--lab-url", "http://127.0.0.1:1"),
            "No such option '--lab-url' after the command: write it after 'minibroker lab'. Try 'minibroker lab info --help'.",
        ),
        (("--hello",), "No such option '--hello'. Did you mean '--help'? Try 'minibroker --help'."),
        (("serve", "--data-dir", ""), "Invalid value for '--data-dir': it is empty. Try 'minibroker serve --help'."),
        (("serve", "--lab-host", "0.0.0.0"), "--lab-host needs --lab-port. Try 'minibroker serve --help'."),
        (("serve", "--lab-name", "b.example"), "--lab-name needs --lab-port. Try 'minibroker serve --help'."),
        (("serve", "--racks", "a,b"), "--racks names 2 racks for --brokers 1: at most one for each broker. Try 'minibroker serve --help'."),
    ],
)
def test_suggestions_for_misspelled_commands(offline: Commands, words: tuple[str, ...], said: str) -> None:
    assert offline(*words, code=2).err == f"Error: {said}\n"


def test_unsupported_kafka_tool(offline: Commands) -> None:
    """Each of ours once; scripts may say it with `.sh`."""
    output = offline("kafka-tool", "kafka-mirror-maker.sh", code=2).err
    assert output.startswith("Error: Invalid value for 'NAME': 'kafka-mirror-maker' is not one of 'cub', 'kafka-acls', ")
    assert output.count("kafka-topics") == offline("kafka-tool", code=2).err.count("kafka-topics") == 1
    assert offline("kafka-tool", "kafka-topics.sh", "--help").out.startswith("usage: kafka-topics ")


@pytest.mark.parametrize("words", [(), ("groups",), ("storage",)])
def test_a_command_that_only_has_commands_shows_them(offline: Commands, words: tuple[str, ...]) -> None:
    result = offline(*words, code=2)
    assert (result.out, result.err) == ("", offline(*words, "--help").out)


def test_not_a_number(offline: Commands) -> None:
    assert "'x' is not a whole number. Try " in offline("topics", "create", "t", "-p", "x", code=2).err
    assert "'x' is not a number. Try " in offline("topics", "list", "--timeout", "x", code=2).err


def test_numbers_out_of_range(offline: Commands) -> None:
    assert "'--partitions': must be at least 1, got 0. Try " in offline("topics", "create", "t", "-p", "0", code=2).err
    assert "'--port': must be from 0 to 65535, got -1. Try " in offline("serve", "-p", "-1", code=2).err
    assert "'--timeout': must be at least 0.001, got 0.0. Try " in offline("topics", "list", "--timeout", "0", code=2).err
    assert "'--timeout': must be at least 0.001, got 1e-09. Try " in offline("topics", "list", "--timeout", "1e-9", code=2).err
    seconds = offline("produce", "t", "--transaction-timeout", "0", code=2).err
    assert "'--transaction-timeout': must be from 0.001 to 2147483.647, got 0.0. Try " in seconds
    assert "'--rate': must be more than 0, got 0.0. Try " in offline("spark", "replay", "t", "--rate", "0", code=2).err
    assert "'--hours': 'x' is not a number. Try " in offline("lab", "advance", "--hours", "x", code=2).err


def test_as_a_module() -> None:
    result = subprocess.run([sys.executable, "-m", "minibroker", "nonsense"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "Error: No such command 'nonsense'. Try 'minibroker --help'.\n"


def failing_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Any:
    @click.command("topics")
    def command() -> None:
        raise error

    monkeypatch.setattr(entry.Main, "get_command", lambda self, ctx, name: command)
    return CliRunner().invoke(entry.main, ["topics"])


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (BrokerUnreachable("no connection"), 1, "Error: no connection\n"),
        (TimedOut("gave up"), 124, "Error: gave up\n"),
        (RequestTimedOut("topic a: late"), 124, "Error: topic a: late [REQUEST_TIMED_OUT]\n"),
        (TopicAlreadyExists("topic a: there"), 1, "Error: topic a: there [TOPIC_ALREADY_EXISTS]\n"),
        (ConfigurationError("two\nlines"), 1, "Error: two lines\n"),
        (CorruptLogError("a.log at 5"), 1, "Error: a.log at 5\n"),
        (PermissionError(13, "Permission denied", "/root/x"), 1, "Error: /root/x: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_failures(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str) -> None:
    result = failing_with(monkeypatch, error)
    assert (result.exit_code, result.stderr) == (code, words)


def test_internal_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failure_of(ZeroDivisionError()) is None
    assert isinstance(failing_with(monkeypatch, ZeroDivisionError("ours")).exception, ZeroDivisionError)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    command = [sys.executable, "-m", "minibroker"]
    result = subprocess.run(
        command, env={"_MINIBROKER_COMPLETE": f"{shell}_source", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert "_MINIBROKER_COMPLETE" in result.stdout


def test_completes_commands_and_options() -> None:
    environment = {"_MINIBROKER_COMPLETE": "bash_complete", "COMP_WORDS": "minibroker off", "COMP_CWORD": "1", "PATH": "/usr/bin:/bin"}
    result = subprocess.run([sys.executable, "-m", "minibroker"], env=environment, capture_output=True, text=True, check=False)
    assert result.stdout == "plain,offsets\n"
