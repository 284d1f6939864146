"""A client of a lab over HTTP, and commands that are derived from its operations (minibroker/testing/lab/operations.py)."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click

from minibroker.testing.lab.declaration import Operation, operation_of, remote
from minibroker.testing.lab.handles import Faults
from minibroker.testing.lab.operations import BrokerOperations, HighWatermarks, Leaders, Nodes
from minibroker.testing.lab.registry_operations import RegistryOperations

_TIMEOUT_S: Final = 60.0


class HttpLab:
    """A lab by its URL. Its groups of operations are those of the test kit."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            self._url = f"http://{self._url}"
        self._opener = build_opener(ProxyHandler({}))  # a lab is local: do not use proxies of the environment
        self.broker = remote(BrokerOperations, self.execute)
        self.high_watermarks = remote(HighWatermarks, self.execute)
        self.faults = Faults(self.execute)
        self.leaders = remote(Leaders, self.execute)
        self.nodes = remote(Nodes, self.execute)
        self.registry = remote(RegistryOperations, self.execute)

    def execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        """Execute an operation and return its result; ClickException says in one line why it failed."""
        request = Request(  # noqa: S310  http or https, see above
            f"{self._url}/{name}", json.dumps(arguments).encode(), {"Content-Type": "application/json"}
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return json.load(answer)["result"]
        except HTTPError as error:
            raise click.ClickException(_reason(error)) from error
        except URLError as error:
            reason = getattr(error.reason, "strerror", None) or error.reason
            raise click.ClickException(f"no lab at {self._url}: {reason}. Start the broker with 'serve --lab-port'") from error
        except (ValueError, KeyError, OSError) as error:
            raise click.ClickException(f"{self._url} is not a lab: {error}") from error


def _reason(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url}: HTTP {error.code} {error.reason}: this is not the lab of a minibroker"


pass_lab = click.make_pass_decorator(HttpLab)


def derived(
    method: object,
    *,
    name: str | None = None,
    required: Container[str] = (),
    leave_out: Container[str] = (),
    prints: str = "",
    text: Callable[[Any], object] = str,
) -> click.Command:
    """Return the command of an operation.

    Args:
        method: an operation of a group.
        name: of the command; by default that of the operation.
        required: parameters that the command requires although they have defaults.
        leave_out: parameters that the command does not have.
        prints: a sentence of the help about what the command prints; without it the command prints nothing.
        text: the function from the result to the printed text.
    """
    operation = operation_of(method)
    if operation is None:
        raise TypeError(f"{method!r} is not an operation")

    def run(lab: HttpLab, **arguments: Any) -> None:
        result = lab.execute(operation.name, {key: value for key, value in arguments.items() if value is not None})
        if prints:
            click.echo(text(result))

    return click.Command(
        name or operation.name.rpartition(".")[2].replace("_", "-"),
        callback=pass_lab(run),
        params=[parameter(operation, each, is_required=each in required) for each in operation.parameters if each not in leave_out],
        help=help_of(operation, prints),
        short_help=operation.purpose,
    )


def help_of(operation: Operation, more: str = "") -> str:
    """Return the docstring of an operation as help, without the paragraph on its result."""
    paragraphs = [each for each in operation.doc.split("\n\n") if not each.startswith("Returns ")]
    return "\n\n".join([*paragraphs, *([more] if more else [])])


def parameter(operation: Operation, name: str, *, is_required: bool = False) -> click.Parameter:
    """Return an option if the parameter declares one, otherwise an argument."""
    declared, hint, option = operation.parameters[name], operation.hints[name], operation.options.get(name)
    is_required = is_required or declared.default is declared.empty
    kind: Any = str
    if option is not None and option.choices:
        kind = click.Choice(option.choices)
    elif hint == int | str:
        kind = _number_or_text
    elif hint in {int, int | None}:
        minimum = 0 if option is None else option.minimum
        kind = int if minimum is None else click.IntRange(minimum)
    if option is None:
        return click.Argument([name], type=kind, required=is_required)
    flag = f"--{name.replace('_', '-')}"
    if hint is bool:
        return click.Option([flag, name], is_flag=True, help=option.help)
    default = None if declared.default is declared.empty else declared.default
    return click.Option(
        [flag, name],
        type=kind,
        required=is_required,
        default=default,
        show_default=default is not None,
        metavar=option.metavar,
        help=option.help,
    )


def _number_or_text(value: str) -> int | str:
    return int(value) if value.isdecimal() else value
