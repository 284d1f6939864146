"""`minibroker health`: check whether a broker serves, for a container's health check every few seconds.

It imports few modules and sends three small requests, because it runs all the time beside the broker.
"""

from __future__ import annotations

import os

import click

from minibroker.cli.health_check import TIMEOUT_S, check_all, check_own, file_properties, own_listeners
from minibroker.cli.options import client_connect, client_properties, security_options
from minibroker.client.errors import TimedOut, describe
from minibroker.client.transport import Address, parse_bootstrap
from minibroker.config import sources


@click.command(
    epilog="""\b
Examples:
  minibroker health
  minibroker health -b localhost:9092
  minibroker health -b localhost:9092 --command-config admin.properties
  HEALTHCHECK CMD ["minibroker", "health"]
"""
)
@click.option(
    "-b",
    "--bootstrap-server",
    envvar="MINIBROKER_BOOTSTRAP_SERVER",
    show_envvar=True,
    metavar="HOST:PORT,...",
    help="Brokers to check. All of them must be healthy.  [default: the listeners of this machine's broker]",
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="The broker's server.properties file. Without -b, it names the listeners, together with the environment.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Time after which the broker is unhealthy.",
)
@security_options
def health(bootstrap_server: str | None, config_file: str | None, timeout: float) -> None:
    """Check whether a broker serves requests.

    Prints one line and exits with 0 if the broker is healthy. Otherwise, or after the time-out, prints the reason and exits with 1.
    A healthy broker answers with its versions and metadata, and all its log directories are online. Without -b, checks every
    listener that 'minibroker serve' opens with this environment (KAFKA_LISTENERS) and the file of --config.

    A listener with TLS or SASL counts as healthy if it answers. To check metadata and log directories there, log in with
    --command-config or the --security options.
    """
    try:
        if bootstrap_server:
            line = check_all(parse_bootstrap(bootstrap_server), timeout, client_connect())
        elif client_properties():
            listeners = own_listeners(_properties(config_file))
            line = check_all([Address(each.host, each.port) for each in listeners], timeout, client_connect())
        else:
            line = check_own(own_listeners(_properties(config_file)), timeout)
        click.echo(line)
    except TimedOut as error:
        raise click.ClickException(describe(error)) from error  # Docker does not know 124


def _properties(config_file: str | None) -> dict[str, str]:
    """Return the properties of this environment and of a file."""
    from_file = {} if config_file is None else file_properties(config_file)
    return from_file | sources.from_environment(os.environ)
