"""The group `minibroker spark`: what it costs to ask for its help, and what it says where Spark is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from minibroker.cli.main import main
from minibroker.cli.spark import COMMANDS
from minibroker.extras import install_command
from tests.cli.conftest import Commands

HEAVY = {"pyspark", "py4j", "pyarrow", "pandas", "numpy", "numba", "matplotlib"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_listing_matches_the_command_help(offline: Commands, name: str) -> None:
    group = main.get_command(click.Context(main), "spark")
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.get_short_help_str(limit=500) == COMMANDS[name][2]
    assert "Examples:" in offline("spark", name, "--help").out


def test_help_and_completion_import_nothing_of_spark() -> None:
    calls = [["spark", "--help"], *(["spark", name, "--help"] for name in COMMANDS)]
    program = f"""
import sys
from click.testing import CliRunner
from minibroker.cli.main import main
for words in {calls!r}:
    assert CliRunner().invoke(main, words).exit_code == 0, words
    print(*words, *sorted({HEAVY!r} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [" ".join(words) for words in calls]


@pytest.mark.parametrize(
    "words",
    [
        ["report", "--data-dir", "DIR"],
        ["sql", "--data-dir", "DIR", "SELECT * FROM orders"],
        ["archive", "orders", "--data-dir", "DIR", "--to", "archive"],
        ["audit", "log:DIR", "table:DIR", "--topic", "orders"],
        ["replay", "DIR", "--name", "again"],
    ],
    ids=lambda words: words[0],
)
def test_without_the_extra(tmp_path: Path, words: list[str]) -> None:
    """Packages that are not there are hidden from a process of its own."""
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    (tmp_path / "data" / "orders-0" / f"{0:020}.log").touch()
    words = [word.replace("DIR", str(tmp_path / "data")) for word in words]
    program = f"""
import sys
for name in {HEAVY!r}:
    sys.modules[name] = None
from minibroker.cli.main import main
main({["spark", *words]!r})
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    assert re.fullmatch(rf"Error: \w+ is not installed: {re.escape(install_command('spark'))}\n", result.stderr)


def test_invalid_arguments_fail_before_spark_starts(offline: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/not/there")  # without Java, the error would be about Java
    assert offline("spark", "sql", "--archive", "/not/there", "SELECT 1", code=1).err == "Error: /not/there does not exist\n"
    for words in (["replay", "file:/not/there", "--name", "again"], ["audit", "/not/there"]):
        assert offline("spark", *words, code=1).err == f"Error: {words[1]} does not exist\n"
    assert offline("spark", "sql", "--master", "nonsense", "--archive", "/", "SELECT 1", code=1).err == (
        "Error: 'nonsense' is not a master of Spark: local[N], spark://HOST:PORT, yarn or k8s://URL\n"
    )


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ("security.protocol=SSL\nssl.ca.location=/not/there", "ssl.ca.location: /not/there: No such file or directory"),
        ("security.protocol=SASL_SSL", "sasl.mechanism is missing: give one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (
            "security.protocol=SSL\nenable.ssl.certificate.verification=false",
            "enable.ssl.certificate.verification=false is not possible here: Java's clients always verify certificates",
        ),
    ],
)
def test_invalid_client_configuration_is_reported_before_spark_starts(
    offline: Commands, tmp_path: Path, properties: str, problem: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(properties)
    for words in (["report", "orders"], ["archive", "orders", "--to", str(tmp_path / "a")], ["sql", "SELECT 1 FROM orders"]):
        assert offline("spark", *words, "--command-config", str(file), code=1).err == f"Error: {problem}\n"
