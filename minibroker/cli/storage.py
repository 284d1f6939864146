"""`minibroker storage`: commands for log directories of minibroker and Apache Kafka. They need no broker."""

from __future__ import annotations

import base64
import binascii
import os
import time
from pathlib import Path

import click

from minibroker.cli.options import pairs
from minibroker.cli.storage_check import check
from minibroker.cli.storage_info import info
from minibroker.cluster.directories.storage_formatting import format_directories
from minibroker.cluster.metadata.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramUpsertion
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError
from minibroker.security.scram import NUMBERS, new_salt, salted_password
from minibroker.storage.files import RealFiles


@click.command(
    "format",
    short_help="Prepare log directories for a first start.",
    epilog="""\b
Examples:
  minibroker storage format ./data
  minibroker storage format -c server.properties -t 4L6g3nShT-eMCtK--X86sw --ignore-formatted
  minibroker storage format ./data --feature transaction.version=2 --feature group.version=1
  minibroker storage format ./data --add-scram 'SCRAM-SHA-256=[name=alice,password=secret]'
""",
)
@click.argument("directories", nargs=-1, type=click.Path(file_okay=False), metavar="[DIR]...")
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties file, for node.id, and for log.dirs without DIR.",
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set one property; overrides file and environment.")
@click.option("-t", "--cluster-id", metavar="ID", help="The cluster id, 22 characters.  [default: a random one]")
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="The level of a feature, such as metadata.version=25."
)
@click.option(
    "-S",
    "--add-scram",
    "scram_users",
    multiple=True,
    metavar="MECHANISM=[...]",
    help="A user who can log in from the first start on: [name=NAME,password=PASSWORD], also with iterations, salt, saltedpassword.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Do not fail if a directory is formatted already; leave it unchanged.")
def storage_format(
    directories: tuple[str, ...],
    *,
    config_file: Path | None,
    assignments: tuple[str, ...],
    cluster_id: str | None,
    features: tuple[str, ...],
    scram_users: tuple[str, ...],
    ignore_formatted: bool,
) -> None:
    """Prepare log directories for a first start, of minibroker or of Apache Kafka.

    `minibroker serve` needs no preparation. This command is for a chosen cluster id or features, and for scripts that call
    `kafka-storage format`. The first DIR gets the metadata log, unless metadata.log.dir names another.
    """
    config = BrokerConfig.load(file=config_file, environment=os.environ, assignments=assignments)
    paths = directories or config.log_dirs
    metadata_path = config.metadata_log_dir or paths[0]
    chosen, formatted = format_directories(
        RealFiles(),
        list(dict.fromkeys((*paths, metadata_path))),
        metadata_path=metadata_path,
        cluster_id=cluster_id or config.cluster_id,
        node_id=config.node_id,
        features=_levels(features),
        scram_users=[parse_scram(text) for text in scram_users],
        ignore_formatted=ignore_formatted,
        now_ms=time.time_ns() // 1_000_000,
    )
    for path in formatted:
        click.echo(f"{path}: formatted for node {config.node_id} of cluster {chosen}")
    if scram_users and metadata_path not in formatted:
        click.echo(f"Warning: {metadata_path} was formatted before, so --add-scram changed nothing", err=True)
    if not formatted:
        click.echo("Everything is formatted already.")


def _levels(features: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for name, level in pairs(features, "--feature").items():
        if not level.isdecimal():
            raise click.BadParameter(f"level {level!r} is not a number", param_hint="--feature")
        levels[name] = int(level)
    return levels


@click.group(
    epilog="""\b
Examples:
  minibroker storage check ./data
  minibroker storage check --deep -o json /var/lib/kafka/data
  minibroker storage info ./data
  minibroker storage info ./data --server-properties > kafka.properties
"""
)
def storage() -> None:
    """Check, show and prepare log directories."""


storage.add_command(check)
storage.add_command(info)
storage.add_command(storage_format)


def parse_scram(text: str) -> ScramUpsertion:
    """Parse a credential as in Kafka's StorageTool. Errors have Kafka's messages and never contain a password.

    Args:
        text: `SCRAM-SHA-256=[name=alice,password=secret]`, with `saltedpassword` and `salt` instead of `password`, and
            optionally with `salt` and `iterations`.

    Raises:
        ConfigurationError: the text is malformed, or the iteration count is out of range.
    """
    mechanism, equals, configuration = text.partition("=")
    if not equals:
        raise ConfigurationError("Failed to find equals sign in SCRAM argument")
    if mechanism not in NUMBERS:
        raise ConfigurationError(f"The add-scram mechanism {mechanism} is not supported.")
    parts = _parts(configuration.strip())
    name = parts.pop("name", None)
    if name is None:
        raise ConfigurationError("You must supply 'name' to add-scram")
    salt = _decoded(parts.pop("salt", None), "salt")
    iterations = _iterations(parts.pop("iterations", None), mechanism)
    password, salted = parts.pop("password", None), _decoded(parts.pop("saltedpassword", None), "saltedpassword")
    if parts:
        raise ConfigurationError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    if password is not None:
        salt = salt or new_salt()
        salted = salted_password(mechanism, password.encode(), salt, iterations)
    elif salted is None:
        raise ConfigurationError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt is None:
        raise ConfigurationError("You must supply 'salt' with 'saltedpassword' to add-scram")
    return ScramUpsertion(name, NUMBERS[mechanism], iterations, salt, salted)


def _parts(configuration: str) -> dict[str, str]:
    if not configuration.startswith("["):
        raise ConfigurationError("Expected configuration string to start with [")
    if not configuration.endswith("]"):
        raise ConfigurationError("Expected configuration string to end with ]")
    parts = {}
    for part in configuration[1:-1].split(","):
        key, equals, value = part.strip().partition("=")
        if not equals:
            raise ConfigurationError("No equals sign found in a SCRAM component; a password cannot contain a comma")
        value = value.strip()
        parts[key.strip()] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return parts


def _iterations(text: str | None, mechanism: str) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigurationError(f"Failed to parse iterations count: {text}")
    name = mechanism.replace("-", "_")
    if int(text) < ITERATIONS_MIN:
        raise ConfigurationError(f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {name}")
    if int(text) > ITERATIONS_MAX:
        raise ConfigurationError(f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {name}")
    return int(text)


def _decoded(text: str | None, name: str) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(f"Failed to decode given {name}") from None
