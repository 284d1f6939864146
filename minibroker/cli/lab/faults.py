"""`minibroker lab faults`: what goes wrong, and how often."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from minibroker.cli.lab.asking import Lab, lab_command
from minibroker.cli.options import Command, output_option
from minibroker.cli.output import FORMATS, emit

_COLUMNS: Final = ("id", "kind", "api", "what", "scope", "often", "calls", "hits")
_SCOPE: Final = ("topic", "partition", "client_id", "group", "transactional_id", "node")
_OFTEN: Final = ("once", "times", "on_call", "probability", "always")


@click.group()
def faults() -> None:
    """Let requests and the storage fail, and see what was hit."""


def often_options(function: Command) -> Command:
    """Give a command the options that say how often, and pass them as `often`."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        said = {name: options.pop(name) for name in _OFTEN}
        seed = options.pop("seed")
        given = [name for name, value in said.items() if value is not None and value is not False]  # 0 is a probability
        if len(given) != 1:
            raise click.UsageError("say how often, in one way: --once, --times N, --on-call N, --probability P or --always")
        return function(*args, often=_often(given[0], said[given[0]], seed), **options)

    return _with(
        run,
        click.option("--once", is_flag=True, help="The first time."),
        click.option("--times", type=click.IntRange(1), metavar="N", help="The first N times."),
        click.option("--on-call", type=click.IntRange(1), metavar="N", help="The N-th time alone."),
        click.option("--probability", type=click.FloatRange(0, 1), metavar="P", help="Each time with this probability, from 0 to 1."),
        click.option(
            "--seed", type=int, default=1, show_default=True, metavar="N", help="Of --probability: the same ones with the same seed."
        ),
        click.option("--always", is_flag=True, help="Every time, until it is removed."),
    )


def _often(kind: str, value: Any, seed: int) -> dict[str, Any]:
    if kind == "probability":
        return {"probability": value, "seed": seed}
    return {"once": {"times": 1}, "times": {"times": value}, "on_call": {"call": value}, "always": {}}[kind]


def scope_options(function: Command) -> Command:
    """Give a command the options that say which requests, and pass them as `scope`."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        scope = {name: options.pop(name) for name in _SCOPE}
        return function(*args, scope={name: value for name, value in scope.items() if value is not None}, **options)

    return _with(
        run,
        click.option("--topic", metavar="NAME", help="Requests that name this topic; others that they name are served."),
        click.option("--partition", type=click.IntRange(0), metavar="N", help="One partition of the topic."),
        click.option("--client-id", metavar="NAME", help="Requests of this client."),
        click.option("--group", metavar="NAME", help="Requests about this group."),
        click.option("--transactional-id", metavar="NAME", help="Requests about this transactional id."),
        click.option("--node", type=int, metavar="ID", help="Requests to this broker, of several."),
    )


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _when(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--when", type=click.Choice(["before", "after"]), default=default, show_default=True, help="Before or after the work is done."
    )


def _ms(what: str) -> Callable[[Command], Command]:
    return click.option("--ms", type=click.IntRange(0), required=True, help=what)


def _kind(kind: str, short_help: str, help_text: str, *options: Callable[[Command], Command], name: str | None = None) -> None:
    """A command for a kind of fault (testing/faults/rule.py): `options` are what it needs beside the API."""

    def run(lab: Lab, *, api: str, scope: dict[str, Any], often: dict[str, Any], **more: Any) -> None:
        rule = {"kind": kind, "api": api, "often": often} | scope | {key: value for key, value in more.items() if value is not False}
        click.echo(lab("faults.inject", rule=rule)["id"])

    run.__doc__ = f"{help_text} Prints the fault's number."
    command = _with(lab_command(run), click.argument("api"), *options, scope_options, often_options)
    faults.command(name or kind, short_help=short_help)(command)


_kind(
    "error",
    "Answer requests with an error.",
    "Answer requests of an API (Produce, Fetch, ...) with an error (NOT_LEADER_OR_FOLLOWER, ...).",
    click.argument("error"),
    click.option("--after", is_flag=True, help="Do the work all the same, and say that it failed."),
    name="inject",
)
_kind("delay", "Answer requests later.", "Answer requests of an API later.", _ms("Milliseconds by the broker's clock."), _when("after"))
_kind(
    "throttle",
    "Tell clients to slow down.",
    "Tell clients in throttle_time_ms to wait, and read nothing of them for that time.",
    _ms("throttle_time_ms of the answer."),
)
_kind(
    "disconnect",
    "Cut connections instead of answering.",
    "Cut the connection instead of answering requests of an API.",
    _when("before"),
)
_kind(
    "tear",
    "Send a part of the answer, and cut the connection.",
    "Send so many bytes of the answer to requests of an API, and cut the connection.",
    click.option(
        "--size", type=click.IntRange(0), required=True, metavar="BYTES", help="Of the answer, its own size of 4 bytes among them."
    ),
)
_kind("silence", "Never answer.", "Never answer requests of an API; the connection stays.", _when("before"))


@faults.command(short_help="Let the file system fail.")
@click.option("--on", type=click.Choice(["write", "read", "sync", "open"]), required=True, help="Which calls of the file system.")
@click.option("--error", required=True, metavar="NAME", help="ENOSPC, EIO, EROFS, ...")
@click.option("--topic", metavar="NAME", help="Files of this topic.  [default: all files]")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="One partition of it.")
@often_options
@lab_command
def storage(lab: Lab, *, on: str, error: str, topic: str | None, partition: int | None, often: dict[str, Any]) -> None:
    """Let calls of the file system fail: the log directory goes offline, until 'faults heal' or a restart. Prints the fault's number."""
    click.echo(lab("faults.storage", on=on, error=error, topic=topic, partition=partition, often=often)["id"])


@faults.command("list", short_help="Show all faults and what they hit.")
@output_option(*FORMATS)
@lab_command
def list_(lab: Lab, *, output: str) -> None:
    """Show all faults: what they are for, how many calls that were, and how many they hit."""
    emit([_row(each) for each in lab("faults.list")], output, columns=_COLUMNS, name="id")


def _row(fault: dict[str, Any]) -> dict[str, Any]:
    more = {name: fault[name] for name in ("error", "after", "ms", "size", "when", "on") if fault.get(name) is not None}
    scope = {name: fault[name] for name in _SCOPE if fault.get(name) is not None}
    return {"id": fault["id"], "kind": fault["kind"], "api": fault.get("api"), "what": more, "scope": scope} | {
        name: fault[name] for name in ("often", "calls", "hits")
    }


@faults.command(short_help="Remove one fault.")
@click.argument("id")
@lab_command
def remove(lab: Lab, id: str) -> None:  # noqa: A002  the argument's name in the help
    """Remove a fault by its number; harmless when it is gone."""
    lab("faults.remove", id=int(id) if id.isdecimal() else id)


@faults.command(short_help="Remove all faults.")
@lab_command
def clear(lab: Lab) -> None:
    """Remove all faults. Log directories that went offline stay so until 'faults heal'."""
    lab("faults.clear")


@faults.command(short_help="Bring failed storage back.")
@lab_command
def heal(lab: Lab) -> None:
    """Remove the faults of the storage, and open the logs anew, as a start behind a crash does."""
    lab("faults.heal")
