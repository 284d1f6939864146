"""The log directories of a `minibroker storage` command: those of the command line, or those of a configuration."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from minibroker.config.broker_config import BrokerConfig

Command = Callable[..., Any]


def with_directories(function: Command) -> Command:
    """Give a command `[DIR]...` and `-c`, and pass it the paths, each once. A configuration adds the metadata log's directory."""

    @click.argument("directories", nargs=-1, type=click.Path(exists=True, file_okay=False), metavar="[DIR]...")
    @click.option(
        "-c",
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Without DIR: the server.properties file with log.dirs.",
    )
    @functools.wraps(function)
    def run(directories: tuple[str, ...], config_file: Path | None, **options: Any) -> Any:
        return function(tuple(dict.fromkeys(directories or _configured(config_file))), **options)

    return run


def _configured(config_file: Path | None) -> list[str]:
    config = BrokerConfig.load(file=config_file, environment=os.environ)
    return [path for path in (*config.log_dirs, config.metadata_log_dir) if path is not None]
