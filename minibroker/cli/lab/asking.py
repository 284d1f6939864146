"""Commands of a lab over HTTP, with what the standard library has."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click

from minibroker.cli.options import Command

_TIMEOUT_S: Final = 60.0


class Lab:
    """A lab by its address."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            self._url = f"http://{self._url}"
        self._opener = build_opener(ProxyHandler({}))  # a lab is near by: no proxy of the environment knows the way

    def __call__(self, command: str, /, **arguments: Any) -> Any:
        """Do a command with the arguments that are not None; its result. A failure is a line for the user."""
        given = {name: value for name, value in arguments.items() if value is not None}
        request = Request(  # noqa: S310  http, as seen to above
            f"{self._url}/{command}", json.dumps(given).encode(), {"Content-Type": "application/json"}
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return json.load(answer)["result"]
        except HTTPError as error:
            raise click.ClickException(_told(error)) from error
        except URLError as error:
            reason = getattr(error.reason, "strerror", None) or error.reason
            raise click.ClickException(f"{self._url}: no lab there: {reason}. Start the broker with 'serve --lab-port'") from error
        except (ValueError, KeyError, OSError) as error:
            raise click.ClickException(f"{self._url} does not answer as a lab does: {error}") from error


def _told(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url}: HTTP {error.code} {error.reason}: this is no lab of a minibroker"


lab_command = click.make_pass_decorator(Lab)  #: gives a command its `Lab`


def partition_arguments(command: Command) -> Command:
    """Give a command the arguments `topic` and `partition`."""
    return click.argument("topic")(click.argument("partition", type=click.IntRange(0))(command))
