"""Options that client commands share: cluster, time-out, output format."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from minibroker.client.client import Client
from minibroker.client.errors import describe

Command = Callable[..., Any]

#: `-b`, the option of every command that connects to a cluster
bootstrap_option = click.option(
    "-b",
    "--bootstrap-server",
    envvar="MINIBROKER_BOOTSTRAP_SERVER",
    show_envvar=True,
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT,...",
    help="One or more brokers of the cluster.",
)


def open_client(bootstrap_server: str, timeout_s: float) -> Client:
    """Return the client of a command; tests replace it with a broker in memory."""
    return Client(bootstrap_server, timeout_ms=int(timeout_s * 1000))


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
