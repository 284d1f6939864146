"""`minibroker lab requests`: what clients ask, as it comes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

import click

from minibroker.cli.lab.asking import Lab, lab_command
from minibroker.cli.options import output_option
from minibroker.testing.request_log import WAITING, LoggedRequest, from_json

_PAUSE_S: Final = 0.2


@click.command(short_help="Show what clients ask.")
@click.option("-f", "--follow", is_flag=True, help="Go on, and show each request when it has its answer.")
@output_option("text", "jsonl")
@lab_command
def requests(lab: Lab, *, follow: bool, output: str) -> None:
    """Show what clients asked since the start or the last reset, the last 10,000 requests: who, what, of which topics, and the answer."""
    for request in _following(lab) if follow else _read(lab, 0)[2]:
        click.echo(json.dumps(asdict(request)) if output == "jsonl" else str(request))


def _read(lab: Lab, since: int) -> tuple[int, int, list[LoggedRequest]]:
    """(number of the first, number of the next one to come, requests)."""
    found = lab("requests", since=since)
    return found["first"], found["next"], [*from_json(found["rows"])]


def _following(lab: Lab) -> Iterator[LoggedRequest]:
    """Requests in the order in which they have their answers; one that waits is looked at again."""
    since, seen = 0, set[int]()
    while True:
        first, next_number, found = _read(lab, since)
        if next_number < since:  # another broker
            since, seen = 0, set()
            continue
        waiting = []
        for number, request in enumerate(found, first):
            if request.outcome == WAITING:
                waiting.append(number)
            elif number not in seen:
                seen.add(number)
                yield request
        since = min(waiting, default=next_number)
        seen = {number for number in seen if number >= since}
        time.sleep(_PAUSE_S)
