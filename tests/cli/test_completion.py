"""Completion in a real shell: commands, options, names of the cluster."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from minibroker.cli import completions
from minibroker.cli.main import main
from tests.cli.conftest import Cluster, Commands

#: what bash does at TAB: the function that was registered for the command fills COMPREPLY
_IN_BASH = """
source <(minibroker completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
compopt() { :; }
$(complete -p minibroker | sed 's/.*-F \\([^ ]*\\) .*/\\1/') minibroker
printf '%s\\n' "${COMPREPLY[@]}"
"""


def tab(*words: str, bootstrap: str = "127.0.0.1:1") -> list[str]:
    """What bash offers for the last of these words."""
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "MINIBROKER_BOOTSTRAP_SERVER": bootstrap}
    result = subprocess.run(["bash", "--norc", "-c", _IN_BASH, "bash", *words], env=environment, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.split()


@pytest.fixture(autouse=True)
def _installed() -> None:
    if shutil.which("bash") is None or not (Path(sys.executable).parent / "minibroker").exists():
        pytest.skip("needs bash, and minibroker as a command beside python")


def test_commands_and_options() -> None:
    assert tab("minibroker", "qu") == ["quotas"]
    assert tab("minibroker", "groups", "reset") == ["reset-offsets"]
    assert tab("minibroker", "topics", "create", "orders", "--part") == ["--partitions"]
    assert tab("minibroker", "topics", "list", "-o", "js") == ["json", "jsonl"]
    assert tab("minibroker", "configs", "alter", "cl") == ["client-metrics"]


def test_names_of_configs_need_no_broker() -> None:
    assert tab("minibroker", "topics", "alter", "orders", "-c", "retention") == ["retention.bytes=", "retention.ms="]
    found = tab("minibroker", "configs", "alter", "groups", "billing", "--delete-config", "share.r")
    assert found == ["share.record.lock.duration.ms", "share.renew.acknowledge.enable"]
    assert tab("minibroker", "configs", "alter", "brokers", "1", "-c", "node") == []
    assert tab("minibroker", "quotas", "alter", "--set", "prod") == ["producer_byte_rate="]
    assert tab("minibroker", "quotas", "alter", "--delete", "con") == [
        "consumer_byte_rate",
        "controller_mutation_rate",
        "connection_creation_rate",
    ]


def test_names_of_the_cluster(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic = fresh()
    assert tab("minibroker", "topics", "describe", topic[:-1], bootstrap=cluster.bootstrap) == sorted(
        name for name in cli("topics", "list", "-o", "name").lines if name.startswith(topic[:-1])
    )
    assert tab("minibroker", "configs", "describe", "brokers", "", bootstrap=cluster.bootstrap) == ["1"]
    assert topic in tab("minibroker", "consume", "-b", cluster.bootstrap, topic)
    for words in (
        ["groups", "reset-offsets", "g", "--topic"],
        ["groups", "delete-offsets", "g", "-t"],
        ["transactions", "find-hanging", "--topic"],
    ):
        assert topic in tab("minibroker", *words, topic, bootstrap=cluster.bootstrap)


def test_without_a_broker_there_are_no_names_and_no_words() -> None:
    assert tab("minibroker", "topics", "describe", "a") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(offline: Commands, shell: str) -> None:
    """As click writes them for the command of the project's name; zsh and fish are not at hand everywhere."""
    script = offline("completion", shell).out
    assert "_MINIBROKER_COMPLETE" in script
    assert f"{shell}_complete" in script
    binary = shutil.which(shell)
    if binary is not None:
        subprocess.run([binary, "-n", "/dev/stdin"], input=script, text=True, check=True)


def test_internal_topics_are_completed_after_an_underscore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "_names_of", lambda ctx, what: {"orders", "__consumer_offsets"})
    context, parameter = click.Context(main), click.Argument(["name"])
    assert completions.topic_names(context, parameter, "") == ["orders"]
    assert completions.topic_names(context, parameter, "_") == ["__consumer_offsets"]
    assert completions.group_ids(context, parameter, "o") == ["orders"]
