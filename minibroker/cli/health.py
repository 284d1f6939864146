"""`minibroker health`: whether a broker serves, as a container's health check asks every few seconds.

It imports little and sends three small requests, for such a check runs as long as the container does, beside whatever is tested there.
"""

from __future__ import annotations

import os

import click

from minibroker.client.address import Address, parse_bootstrap
from minibroker.client.deadline import Deadline
from minibroker.client.errors import TimedOut, describe
from minibroker.client.health import check_health

#: where to ask a listener that is bound to every interface
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


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
    "--timeout", type=click.FloatRange(min=0.001), default=5.0, show_default=True, metavar="SECONDS", help="Be unhealthy after so long."
)
def health(bootstrap_server: str | None, config_file: str | None, timeout: float) -> None:
    """Ask whether a broker serves.

    Says so in one line and ends with 0, or says why not and ends with 1, also when it takes too long. A broker serves when it answers
    with its versions and its metadata, and when all its log directories are online. Without -b every listener is asked that
    'minibroker serve' opens with this environment (KAFKA_LISTENERS) and this file.
    """
    deadline = Deadline(int(timeout * 1000))
    addresses = parse_bootstrap(bootstrap_server) if bootstrap_server else _own_listeners(config_file)
    try:
        found = [check_health(address, deadline) for address in addresses]
    except TimedOut as error:
        raise click.ClickException(describe(error)) from error  # 124 means nothing to Docker
    one = found[0]
    directories = "1 log directory" if one.log_dir_count == 1 else f"{one.log_dir_count} log directories"
    click.echo(f"healthy: {', '.join(str(each.address) for each in found)}, cluster {one.cluster_id}, {directories} online")


def _own_listeners(config_file: str | None) -> list[Address]:
    """Where this machine's broker listens, if it was started with this environment and file."""
    from minibroker.config import sources  # noqa: PLC0415  not needed where an address is given
    from minibroker.config.listeners import listeners_of  # noqa: PLC0415  as above

    given = {}
    if config_file is not None:
        from pathlib import Path  # noqa: PLC0415  only a file pays for it

        given = sources.from_file(Path(config_file))
    listeners = listeners_of(given | sources.from_environment(os.environ))
    for listener in listeners:
        if listener.port == 0:
            raise click.ClickException(f"listeners: {listener} takes a free port, which nobody can know from outside: give it with -b")
    return [Address(_LOOPBACK.get(listener.host, listener.host), listener.port) for listener in listeners]
