"""`make bench`: minibroker beside its peers, the same loads in turn, round by round; tables, the verdict on the targets, pictures.

Every broker runs with its own defaults (acknowledged means in the page cache on all sides) but for the loads that are called synced. The
figures of one run compare; those of two runs on a shared machine do not.
"""

from __future__ import annotations

import fnmatch
import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click
from interpreters import Interpreter, interpreter, peer_of, peers_of, warning
from loads import LOADS
from loads.declaration import Load
from machine import now
from measure import Estimate, Session, Step, available, lacking, plan, results_path
from other_peers import Kfake, KfakeInMemory, MockCluster, Tansu
from peers import ApacheKafka, Minibroker, Peer, Unavailable
from progress import Progress, duration
from reporting import pages, tables, terminal
from reporting.results import About, Run, read, shown
from reporting.targets import TARGETS
from tabulate import tabulate

RESULTS = Path(__file__).parent / "results"
PEERS: dict[str, type[Peer]] = {
    "minibroker": Minibroker,
    "kafka": ApacheKafka,
    "kfake": Kfake,
    "kfake-memory": KfakeInMemory,
    "mock": MockCluster,
    "tansu": Tansu,
}
QUICK_PEERS = ("minibroker", "kafka", "kfake")
QUICK_MINUTES = 4.5  #: without the time to fetch and build peers
QUICK_ROUNDS = 3


def _matching(_: click.Context, __: click.Parameter, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of loads; a pattern such as `produce*` means all that match."""
    found: dict[str, None] = {}
    for pattern in patterns:
        matching = [name for name in LOADS if name == pattern or fnmatch.fnmatch(name, pattern)]
        if not matching:
            raise click.BadParameter(f"{pattern!r} is not one of them, and matches none: see --list")
        found |= dict.fromkeys(matching)
    return tuple(name for name in LOADS if name in found)


@click.command()
@click.option("--quick", is_flag=True, help="Small loads, those of the targets first, and what fits into 4.5 minutes.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each load runs against each broker.  [default: 5; 3 with --quick]")
@click.option("--scale", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True, help="Size of the loads.")
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), help="Only these brokers (default: all that can be had).")
@click.option("--broker-python", metavar="COMMAND", default="", help="Run minibroker by this interpreter, such as the image's.")
@click.option("--python", "pythons", multiple=True, metavar="COMMAND", help="Also measure minibroker by this interpreter (repeat it).")
@click.option("--load", "loads", multiple=True, callback=_matching, help="Only these loads, or a pattern: 'produce*' (default: all).")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Begin nothing that would end later than that.")
@click.option("--resume", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Go on with the run that this file keeps.")
@click.option("--save/--no-save", default=True, show_default=True, help="Keep the figures in benchmarks/results/.")
@click.option("--list", "listed", is_flag=True, help="Show the loads, and end.")
def main(
    *,
    quick: bool,
    rounds: int | None,
    scale: float,
    peers: tuple[str, ...],
    broker_python: str,
    pythons: tuple[str, ...],
    loads: tuple[str, ...],
    minutes: float | None,
    resume: Path | None,
    save: bool,
    listed: bool,
) -> None:
    """Measure minibroker beside its peers."""
    if listed:
        click.echo(_list())
        return
    if resume is not None:
        run, path = read(resume), resume
    else:
        by_interpreter = _asked(pythons)
        run = Run(
            About(
                date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
                commit="",
                command=_command(),
                peers=(*(peers or (QUICK_PEERS if quick else tuple(PEERS))), *by_interpreter),
                broker_python=broker_python,
                interpreters={key: command for key, (command, _, _) in by_interpreter.items()},
                loads=loads or (_quick_loads() if quick else tuple(LOADS)),
                rounds=rounds or (QUICK_ROUNDS if quick else 5),
                scale=scale,
                quick=quick,
                minutes=minutes or (QUICK_MINUTES if quick else None),
            )
        )
        path = results_path(RESULTS, quick=quick)
    _measure(run, path if save or resume else None)


def _asked(commands: Iterable[str]) -> dict[str, tuple[str, type[Minibroker], Interpreter]]:
    """Return what is known of further interpreters, by the key of their broker."""
    try:
        return peers_of(commands)
    except Unavailable as reason:
        raise click.BadParameter(str(reason), param_hint="--python") from reason


def _own(broker_python: str) -> Interpreter:
    """Return the interpreter that runs minibroker."""
    try:
        return interpreter(shlex.split(broker_python) or [sys.executable])
    except Unavailable as reason:
        raise click.BadParameter(str(reason), param_hint="--broker-python") from reason


def _quick_loads() -> tuple[str, ...]:
    """Sort loads with a target first, then the curves, as the time may end before the others."""
    of_targets = {target.load for target in TARGETS}
    names = [name for name, load in LOADS.items() if load.quick]
    return tuple(sorted(names, key=lambda name: (name not in of_targets, LOADS[name].theme != "Growth")))


def _command() -> str:
    """Return the command of this run as a reader types it."""
    arguments = sys.argv[1:]
    return {(): "make bench", ("--quick",): "make bench-quick"}.get(tuple(arguments), shlex.join(["benchmarks/run.py", *arguments]))


def _list() -> str:
    rows = [
        [load.theme, load.name, f"{load.seconds:.0f} s", f"{load.quick:g}" if load.quick else "", load.summary] for load in LOADS.values()
    ]
    return tabulate(rows, headers=["theme", "load", "a round", "quick", "what it does"], tablefmt="simple", disable_numparse=True)


def _measure(run: Run, path: Path | None) -> None:
    """Make the missing measurements; show and store the results even if it is interrupted."""
    by_interpreter = _asked(run.about.interpreters.values())
    own = _own(run.about.broker_python)
    for line in filter(None, map(warning, [own, *(found for _, _, found in by_interpreter.values())])):
        click.echo(click.style(f"warning: {line}", fg="yellow"), err=True)
    known = PEERS | {key: kind for key, (_, kind, _) in by_interpreter.items()}
    if run.about.broker_python:
        known["minibroker"] = peer_of(run.about.broker_python, "minibroker")
    kinds, left_out = available(
        {key: known[key] for key in run.about.peers if key in known}, lambda key: click.echo(f"looking for {key} ...", err=True)
    )
    for line in left_out:
        click.echo(click.style(line, fg="yellow"), err=True)
    run.left_out = [*dict.fromkeys([*run.left_out, *left_out])]
    run.about = now(run.about, kinds)
    run.about.versions.update({key: found.build for key, (_, _, found) in by_interpreter.items()})
    if run.about.broker_python and "minibroker" in kinds:
        run.about.versions["minibroker"] += f", {own.build}"
    loads: list[Load] = [LOADS[name] for name in run.about.loads if name in LOADS]
    steps = plan(loads, kinds, rounds=run.about.rounds, scale=run.about.scale, quick=run.about.quick)
    times = f"{run.about.rounds} round{'s' * (run.about.rounds > 1)}"
    click.echo(f"{len(loads)} loads, {len(kinds)} brokers, {times}: {_takes(run, steps)}", err=True)
    progress = Progress(run.about.rounds)
    session = Session(run, kinds, (lambda: run.write(path)) if path else (lambda: None), progress)
    began = time.monotonic()
    try:
        session.go_through(steps, minutes=run.about.minutes)
    except KeyboardInterrupt:
        progress.close()
        if path and run.measurements:
            click.echo(f"stopped; to continue: {shown(Path(sys.executable))} benchmarks/run.py --resume {shown(path)}", err=True)
    else:
        progress.close()
    _show(run, path, time.monotonic() - began)
    if session.broke:
        sys.exit(1)


def _takes(run: Run, steps: list[Step]) -> str:
    seconds = Estimate(run.measurements).seconds(lacking(run, steps))
    limit = run.about.minutes
    return f"about {duration(seconds)}" if limit is None or seconds < limit * 60 else f"what fits into {limit:g} minutes"


def _show(run: Run, path: Path | None, seconds: float) -> None:
    if not run.measurements:
        raise click.ClickException("nothing was measured")
    click.echo(f"\n{terminal.overview(run)}\n\n{tables.heading(run)}" if sys.stdout.isatty() else pages.page(run))
    click.echo(f"took {duration(seconds)}", err=True)
    if path is not None:
        for each in (path, *pages.write(run, path)):
            click.echo(f"kept in {shown(each)}", err=True)


if __name__ == "__main__":
    main()
