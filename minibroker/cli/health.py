"""`minibroker health`: whether a broker serves, as a container's health check asks every few seconds.

It imports little and sends three small requests, for such a check runs as long as the container does, beside whatever is tested there.
"""

from __future__ import annotations

import os

import click

from minibroker.cli.health_check import TIMEOUT_S, own_listeners, said_by
from minibroker.client.address import parse_bootstrap
from minibroker.client.errors import TimedOut, describe


@click.command(
    epilog="""\b
Examples:
  minibroker health
  minibroker health -b localhost:9092
  HEALTHCHECK CMD ["minibroker", "health"]
"""
)
@click.option(
    "-b",
    "--bootstrap-server",
    envvar="MINIBROKER_BOOTSTRAP_SERVER",
    show_envvar=True,
    metavar="HOST:PORT,...",
    help="Brokers to ask, each of them.  [default: the listeners of this machine's broker]",
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Its server.properties file; without -b it says, with the environment, what the listeners are.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Be unhealthy after so long.",
)
def health(bootstrap_server: str | None, config_file: str | None, timeout: float) -> None:
    """Ask whether a broker serves.

    Says so in one line and ends with 0, or says why not and ends with 1, also when it takes too long. A broker serves when it answers
    with its versions and its metadata, and when all its log directories are online. Without -b every listener is asked that
    'minibroker serve' opens with this environment (KAFKA_LISTENERS) and this file.
    """
    try:
        click.echo(said_by(parse_bootstrap(bootstrap_server) if bootstrap_server else own_listeners(_properties(config_file)), timeout))
    except TimedOut as error:
        raise click.ClickException(describe(error)) from error  # 124 means nothing to Docker


def _properties(config_file: str | None) -> dict[str, str]:
    """Those of this environment and of a file."""
    from minibroker.config import sources  # noqa: PLC0415  not needed where an address is given

    given = {}
    if config_file is not None:
        from pathlib import Path  # noqa: PLC0415  only a file pays for it

        given = sources.from_file(Path(config_file))
    return given | sources.from_environment(os.environ)
