"""`minibroker lab faults`: a command for each kind of fault, derived from the methods of Python tests (testing/lab/phrases.py)."""

from __future__ import annotations

import inspect
from typing import Any, Final

import click

from minibroker.cli.lab.calling import HttpLab, derived, help_of, parameter, pass_lab
from minibroker.cli.options import output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.testing.lab.declaration import Operation
from minibroker.testing.lab.operations import FaultOperations
from minibroker.testing.lab.phrases import FaultPhrases

_COLUMNS: Final = ("id", "kind", "api", "what", "scope", "often", "calls", "hits")
_KINDS: Final = ("inject", "delay", "throttle", "disconnect", "tear", "silence", "storage")
_LOGIN_KINDS: Final = ("certificate", "refuse_login", "revoke", "delay_login", "shorten_sessions")
_REGISTRY_KINDS: Final = ("registry_error", "registry_delay", "registry_disconnect", "registry_wrong_id")
_SCOPE: Final = ("topic", "partition", "client_id", "group", "transactional_id", "node", "user", "subject", "path", "method")
_WHAT: Final = (
    "error", "after", "ms", "size", "when", "on", "problem", "keep_connections", "status", "error_code", "schema_id",
)  # fmt: skip
_OFTEN: Final = ("once", "times", "on_call", "probability", "always")


@click.group(short_help="Inject faults into requests, logins and storage, and show what they hit.")
def faults() -> None:
    """Inject faults into requests, logins, storage and the schema registry, and show what they hit."""


def _scope_options() -> list[click.Parameter]:
    return [
        click.Option(["--topic"], metavar="NAME", help="Requests that name this topic. Other topics in them are served as usual."),
        click.Option(["--partition"], type=click.IntRange(0), metavar="N", help="One partition of the topic."),
        click.Option(["--client-id"], metavar="NAME", help="Requests of this client."),
        click.Option(["--group"], metavar="NAME", help="Requests about this group."),
        click.Option(["--transactional-id"], metavar="NAME", help="Requests about this transactional id."),
        click.Option(["--node"], type=int, metavar="ID", help="Requests to this broker, if there are several."),
    ]


def _often_options() -> list[click.Parameter]:
    return [
        click.Option(["--once"], is_flag=True, help="The first time."),
        click.Option(["--times"], type=click.IntRange(1), metavar="N", help="The first N times."),
        click.Option(["--on-call"], type=click.IntRange(1), metavar="N", help="Only the N-th time."),
        click.Option(["--probability"], type=click.FloatRange(0, 1), metavar="P", help="Each time with this probability, from 0 to 1."),
        click.Option(
            ["--seed"], type=int, default=1, show_default=True, metavar="N", help="With --probability: the same seed hits the same calls."
        ),
        click.Option(["--always"], is_flag=True, help="Every time, until it is removed."),
    ]


def _kind(kind: str) -> click.Command:
    """Return the command of a method of FaultPhrases."""
    method = Operation(kind, getattr(FaultPhrases, kind))
    names = [name for name, each in method.parameters.items() if each.kind is not inspect.Parameter.VAR_KEYWORD]

    def run(lab: HttpLab, *, seed: int, **options: Any) -> None:
        frequency = {
            name: value for name in _OFTEN if (value := options.pop(name)) is not None and value is not False
        }  # 0 is a probability
        if len(frequency) != 1:
            raise click.UsageError("give one of --once, --times N, --on-call N, --probability P and --always")
        ((often, value),) = frequency.items()
        phrase = getattr(lab.faults, kind)(**{name: each for name, each in options.items() if each is not None})
        if often == "probability":
            click.echo(phrase.probability(value, seed=seed).id)
        else:
            click.echo(getattr(phrase, often)(*([] if value is True else [value])).id)

    scope = _scope_options() if len(names) < len(method.parameters) else []
    return click.Command(
        kind.replace("_", "-"),
        callback=pass_lab(run),
        params=[*(parameter(method, name) for name in names), *scope, *_often_options()],
        help=help_of(method, "Prints the fault's number."),
        short_help=method.purpose,
    )


for _name in (*_KINDS, *_LOGIN_KINDS, *_REGISTRY_KINDS):
    faults.add_command(_kind(_name))
for _operation in (FaultOperations.remove, FaultOperations.clear, FaultOperations.heal):
    faults.add_command(derived(_operation))


@faults.command("list", short_help="Show all faults and what they hit.")
@output_option(*FORMATS)
@pass_lab
def list_(lab: HttpLab, *, output: str) -> None:
    """Show all faults: their scope, the number of calls in it, and how many of these they hit."""
    emit([_row(each) for each in lab.faults.list()], output, columns=_COLUMNS, name="id", empty="No faults.")


def _row(fault: dict[str, Any]) -> dict[str, Any]:
    more = {name: fault[name] for name in _WHAT if fault.get(name) is not None}
    scope = {name: fault[name] for name in _SCOPE if fault.get(name) is not None}
    return {"id": fault["id"], "kind": fault["kind"], "api": fault.get("api"), "what": more, "scope": scope} | {
        name: fault[name] for name in ("often", "calls", "hits")
    }
