"""`minibroker metrics`: print what /metrics of a broker has, or some of it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
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
    help="URL of the broker's metrics, as the first line of 'serve' shows it.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="File with the token, as given to the broker by --metrics-token-file.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def metrics(url: str, token_file: str | None, names: tuple[str, ...]) -> None:
    """Print the metrics of a broker that serves them.

    With NAMEs, prints only series whose name contains one of them.
    """  # fmt: skip
    if "://" not in url:
        url = f"http://{url}"
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise click.BadParameter(f"{url!r} is not an address such as {_URL}.", param_hint="--url")
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
        why = getattr(reason, "strerror", None) or reason
        raise click.ClickException(f"no metrics at {url}: {why}. Start the broker with 'serve --metrics-port'") from error
    if names:
        _print_chosen(text.splitlines(), names)
    else:
        click.echo(text.rstrip("\n"))


def _print_chosen(lines: list[str], names: tuple[str, ...]) -> None:
    """Print the series whose name contains one of `names`. ClickException: no metric has such a name."""
    series = [(found[0], line) for line in lines if not line.startswith("#") and (found := _NAME.match(line))]
    known = {name for name, _ in series} | {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    for each in names:
        if not any(each in name for name in known):
            close = get_close_matches(each, sorted(known), 1)
            advice = f" Did you mean {close[0]}?" if close else " 'minibroker metrics' without a name prints all."
            raise click.ClickException(f"no metric's name contains {each!r}.{advice}")
        if not any(each in name for name, _ in series):
            click.echo(f"{each} has no series yet", err=True)
    for name, line in series:
        if any(each in name for each in names):
            click.echo(line)
