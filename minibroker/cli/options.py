"""Options that client commands share: cluster, time-out, output format."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from minibroker.cli.security_options import client_connect, file_bootstrap, security_options
from minibroker.client.client import Client
from minibroker.client.errors import describe

Command = Callable[..., Any]

_bootstrap_server = click.option(
    "-b",
    "--bootstrap-server",
    envvar="MINIBROKER_BOOTSTRAP_SERVER",
    show_envvar=True,
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT,...",
    callback=file_bootstrap,
    help="One or more brokers of the cluster.",
)


def bootstrap_option(function: Command) -> Command:
    """Add `-b` and the security options, which every command that connects to a cluster has."""
    return _bootstrap_server(security_options(function))


def open_client(bootstrap_server: str, timeout_s: float) -> Client:
    """Return the client of a command; tests replace it with a broker in memory."""
    return Client(bootstrap_server, timeout_ms=int(timeout_s * 1000), connect=client_connect())


def client_command(function: Command) -> Command:
    """Give a command `-b` and `--timeout`, and pass it a Client that is closed afterwards."""

    @bootstrap_option
    @click.option(
        "--timeout",
        type=click.FloatRange(min=0.001),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="Time-out, after which the command fails with exit code 124.",
    )
    @functools.wraps(function)
    def run(*args: Any, bootstrap_server: str, timeout: float, **options: Any) -> Any:
        with open_client(bootstrap_server, timeout) as client:
            return function(client, *args, **options)

    return run


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Give a command `-o`; the first of `formats` is its default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format.")


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """`("a=b", ...)` as a dict; BadParameter for one without `=`."""
    found = {}
    for value in values:
        name, equals, content = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint=option)
        found[name] = content
    return found


def fail_with(errors: list[Exception]) -> None:
    """Fail after a part of the work was done: each error is a line on stderr, and the last one sets the exit code."""
    for error in errors[:-1]:
        click.echo(f"Error: {describe(error)}", err=True)
    if errors:
        raise errors[-1]
