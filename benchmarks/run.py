"""`make bench`: minibroker beside Apache Kafka, the same loads in turn, interleaved rounds, medians and ratios.

Every broker runs with its own defaults (acknowledged means in the page cache on both sides). The figures of one run compare; those of
two runs on a shared machine do not.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import click
from loads import LOADS
from loads.declaration import Figures
from other_peers import Kfake, KfakeInMemory, MockCluster
from peers import ApacheKafka, Minibroker, Peer, Unavailable
from pump import LoadError
from tabulate import tabulate

RESULTS = Path(__file__).parent / "results"
PEERS: dict[str, type[Peer]] = {
    "minibroker": Minibroker,
    "kafka": ApacheKafka,
    "kfake": Kfake,
    "kfake-memory": KfakeInMemory,
    "mock": MockCluster,
}
#: (peer, load, figure) to the values of all rounds.
Measured = dict[tuple[str, str, str], list[float]]


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="How often each load runs against each broker.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Size of each load; 0.1 for a quick look.")
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), help="Only these brokers (default: all that can be had).")
@click.option("--load", "loads", multiple=True, type=click.Choice(list(LOADS)), help="Only these loads (default: all).")
@click.option("--save/--no-save", default=True, show_default=True, help="Keep the figures in benchmarks/results/.")
def main(rounds: int, scale: float, peers: tuple[str, ...], loads: tuple[str, ...], save: bool) -> None:
    """Measure minibroker beside its peers."""
    measured: Measured = {}
    names = []
    for key in peers or tuple(PEERS):
        try:
            _starts(PEERS[key])
            names.append(key)
        except Unavailable as reason:
            click.echo(f"{key} is left out: {reason}", err=True)
    for load in loads or tuple(LOADS):
        _rounds(load, names, rounds, scale, measured)
    text = _report(measured, names, rounds)
    click.echo(text)
    if save:
        _save(measured, text)


def _starts(kind: type[Peer]) -> None:
    """It can be had on this machine."""
    peer = kind()
    try:
        peer.start()
    finally:
        peer.stop()


def _rounds(load: str, names: list[str], rounds: int, scale: float, measured: Measured) -> None:
    """One load, the brokers in turn: A B A B; only the one that is measured runs."""
    declared = LOADS[load]
    names = [name for name in names if declared.needs <= PEERS[name].gives]
    with click.progressbar(length=rounds * len(names), label=f"{load:20}", file=sys.stderr) as bar:
        for _ in range(rounds):
            for name in names:
                peer = PEERS[name](declared.properties)
                try:
                    peer.start()
                    _add(measured, peer, load, declared.run(peer, scale))
                except LoadError as error:  # the figures of the other loads are worth keeping
                    click.echo(f"\n{peer.name}, {load}, a round is left out: {error}", err=True)
                finally:
                    peer.stop()
                bar.update(1)


def _add(measured: Measured, peer: Peer, load: str, figures: Figures) -> None:
    for figure, value in figures.items():
        measured.setdefault((_key(peer), load, figure), []).append(value)


def _key(peer: Peer) -> str:
    return next(name for name, kind in PEERS.items() if type(peer) is kind)


def _report(measured: Measured, names: list[str], rounds: int) -> str:
    """One row a figure: the median of each broker with its range, and the first broker's ratio to each other one."""
    rows = []
    for load, figure in dict.fromkeys((load, figure) for _, load, figure in measured):
        values = {name: measured.get((name, load, figure), []) for name in names}
        row = [load, figure, *(_cell(values[name]) for name in names)]
        first = names[0]
        row += [_ratio(values[first], values[name]) for name in names[1:]]
        rows.append(row)
    headers = ["load", "figure", *(f"{name} median (min-max)" for name in names), *(f"{names[0]} / {name}" for name in names[1:])]
    return f"{_machine()}, {rounds} rounds\n\n{tabulate(rows, headers=headers, tablefmt='github')}"


def _cell(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):,.4g} ({min(values):,.4g}-{max(values):,.4g})"


def _ratio(ours: list[float], theirs: list[float]) -> str:
    if not ours or not theirs or not statistics.median(theirs):
        return "-"
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}"


def _machine() -> str:
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{date}, commit {head or 'unknown'}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def _save(measured: Measured, text: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / time.strftime("%Y-%m-%d_%H%M", time.gmtime())
    stem.with_suffix(".md").write_text(f"# Figures of {text}\n")
    figures = [{"broker": name, "load": load, "figure": figure, "values": values} for (name, load, figure), values in measured.items()]
    stem.with_suffix(".json").write_text(json.dumps({"machine": _machine(), "figures": figures}, indent=1) + "\n")
    click.echo(f"kept in {os.path.relpath(stem)}.md and .json", err=True)


if __name__ == "__main__":
    main()
