"""`minibroker metrics`: print what /metrics of a broker has, or some of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click

_TIMEOUT_S: Final = 30.0
_URL: Final = "http://127.0.0.1:9308"
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@click.command(
    epilog="""\b
Examples:
  minibroker serve --metrics-port 9308
  minibroker metrics
  minibroker metrics lag kafka_log_log_size
  minibroker metrics --url http://broker:9308 --token-file token
"""
)
@click.option(
    "--url",
    metavar="URL",
    default=_URL,
    show_default=True,
    envvar="MINIBROKER_METRICS_URL",
    show_envvar=True,
    help="Of the broker's metrics, as its first line shows.",
)
@click.option(
    "--token-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="The file of the broker's --metrics-token-file."
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def metrics(url: str, token_file: str | None, names: tuple[str, ...]) -> None:
    """Print the metrics of a broker that serves them.

    With NAMEs, prints only series whose name contains one of them.
    """  # fmt: skip
    if not url.startswith(("http://", "https://")):
        url = f"http://{url}"
    headers = {} if token_file is None else {"Authorization": f"Bearer {Path(token_file).read_text(encoding='utf-8').strip()}"}
    request = Request(f"{url.rstrip('/').removesuffix('/metrics')}/metrics", headers=headers)  # noqa: S310  http, as seen to above
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=_TIMEOUT_S) as answer:
            text = answer.read().decode()
    except HTTPError as error:
        advice = ": give its --token-file" if error.code == 401 else ""
        raise click.ClickException(f"{url}: HTTP {error.code} {error.reason}{advice}") from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise click.ClickException(f"{url}: no metrics there: {reason}. Start the broker with 'serve --metrics-port'") from error
    click.echo("\n".join(_chosen(text, names)) if names else text.rstrip("\n"))


def _chosen(text: str, names: tuple[str, ...]) -> Iterator[str]:
    """Return the series whose name contains one of `names`."""
    for line in text.splitlines():
        found = None if line.startswith("#") else _NAME.match(line)
        if found is not None and any(name in found[0] for name in names):
            yield line
