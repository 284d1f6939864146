"""Attack a broker with an honest client beside it, and say what it cost: memory, CPU, and the honest client's waits.

    .venv/bin/python benchmarks/attacks.py                                   # this tree; about ten minutes
    .venv/bin/python benchmarks/attacks.py --broker-python OTHER/.venv/bin/python --keep before.json
    .venv/bin/python benchmarks/attacks.py --keep after.json
    .venv/bin/python benchmarks/attacks.py --compare before.json after.json  # Markdown, for the documentation

Each attack has a broker of its own. Memory is the kernel's peak of the resident set; the honest client's maximum is the longest stall.
Its figures are worth something on a quiet machine only. The exit code is 1 where a bound on memory is broken (`--assert`).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from attacking.declaration import ATTACKS, Attack, Damage, Target, forget_peak, peak_mb, resident_mb
from peers import Minibroker

HERE = Path(__file__).parent
ROOT = HERE.parent
THEMES = ("expressions", "connections", "elements", "records", "many")
HONEST_TOPIC = "honest"
SETTLED_S = 1.0


class AttackedBroker(Minibroker):
    """A broker of any checkout, by its Python."""

    def __init__(self, python: str, properties: dict[str, str]) -> None:
        super().__init__(properties)
        self._python = python

    def command(self) -> list[str]:
        """As a user starts it, from a folder where no other checkout lies."""
        words = super().command()
        return ["/usr/bin/env", "-C", str(self.folder), self._python, *words[1:]]


def inflict(attack: Attack, python: str, scale: float) -> Damage:
    """Start a broker, attack it, and measure."""
    broker = AttackedBroker(python, dict(attack.properties))
    broker.start()
    target = Target(broker.address, broker.pid, scale)
    honest = subprocess.Popen(
        [sys.executable, str(HERE / "honest.py"), *map(str, broker.address), HONEST_TOPIC],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if attack.prepare is not None:
            attack.prepare(target)
        assert honest.stdout is not None  # noqa: S101  it is a pipe
        honest.stdout.readline()
        time.sleep(SETTLED_S)
        before, cpu, started = resident_mb(broker.pid), broker.cpu_seconds(), time.perf_counter()
        forget_peak(broker.pid)
        attack.run(target)
        seconds = time.perf_counter() - started
        peak, used = peak_mb(broker.pid) - before, broker.cpu_seconds() - cpu
        target.close()
        time.sleep(SETTLED_S)
        left = resident_mb(broker.pid) - before
        seen = _finish(honest, target)
    finally:
        honest.kill()
        honest.wait()
        target.close()
        broker.stop()
    bound = None if attack.max_growth_mb is None else attack.max_growth_mb + attack.request_bytes / (1 << 20)
    notes = "; ".join(target.notes)
    return Damage(attack.name, attack.about, peak, left, used, seconds, seen["p99_ms"], seen["max_ms"], notes, bound)


def _finish(honest: subprocess.Popen[str], target: Target) -> dict[str, float]:
    """What the honest client saw; nothing where the broker did not answer it any more."""
    try:
        out, _ = honest.communicate(timeout=45)
        seen = json.loads(out.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError):
        target.note("THE HONEST CLIENT GOT NO ANSWER")
        return {"p99_ms": math.nan, "max_ms": math.inf}
    if seen["wrong"] or seen["error"]:
        target.note(f"THE HONEST CLIENT: {seen['wrong']} wrong, {seen['error']}")
    return {"p99_ms": seen["p99_ms"], "max_ms": seen["max_ms"]}


def line_of(damage: Damage) -> str:
    """For a terminal."""
    over = "" if damage.is_within_bound else f"  ABOVE ITS BOUND of {damage.bound_mb:.0f} MB"
    return (
        f"{damage.attack[:48]:48} {damage.peak_mb:8.0f} {damage.left_mb:8.0f} {damage.cpu_s:8.2f} {damage.seconds:8.1f} "
        f"{damage.honest_p99_ms:8.1f} {damage.honest_max_ms:8.0f}  {damage.notes}{over}"
    )


HEAD = f"{'attack':48} {'peak MB':>8} {'left MB':>8} {'CPU s':>8} {'took s':>8} {'p99 ms':>8} {'max ms':>8}"


def markdown(before: list[Damage], after: list[Damage]) -> list[str]:
    """Two runs side by side; `after` alone where there is no earlier one."""
    earlier = {each.attack: each for each in before}
    lines = ["| Attack | Peak memory (MB) | CPU (s) | Honest client, p99 (ms) | Honest client, maximum (ms) |", "|---|---|---|---|---|"]
    for now in after:
        was = earlier.get(now.attack)
        columns = [("peak_mb", 0), ("cpu_s", 2), ("honest_p99_ms", 1), ("honest_max_ms", 0)]
        cells = [f"{_arrow(was, name, digits)}{getattr(now, name):,.{digits}f}" for name, digits in columns]
        lines.append(f"| **{now.attack}**: {now.about} | {' | '.join(cells)} |")
    return lines


def _arrow(was: Damage | None, name: str, digits: int) -> str:
    return "" if was is None else f"{getattr(was, name):,.{digits}f} → "


def load(path: Path) -> list[Damage]:
    """A run that was kept."""
    return [Damage(**each) for each in json.loads(path.read_text())]


def main() -> int:
    """Attack, or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attack", default="*", help="only those whose names match (default: all)")
    parser.add_argument("--broker-python", default=sys.executable, help="the Python of the checkout to attack (default: this one)")
    parser.add_argument("--scale", type=float, default=1.0, help="of counts: 0.1 for a quick look (default: 1)")
    parser.add_argument("--keep", type=Path, help="write the figures to this file")
    parser.add_argument("--compare", type=Path, nargs="+", metavar="FILE", help="print Markdown of one or two kept runs")
    parser.add_argument("--list", action="store_true", help="print the attacks")
    parser.add_argument("--assert", dest="asserts", action="store_true", help="exit with 1 where a bound on memory is broken")
    arguments = parser.parse_args()
    if arguments.compare:
        runs = [load(path) for path in arguments.compare]
        print("\n".join(markdown(runs[0] if len(runs) > 1 else [], runs[-1])))
        return 0
    sys.path.append(str(ROOT))  # tests.support, for frames from schemas
    for theme in THEMES:
        import_module(f"attacking.{theme}")
    chosen = [each for each in ATTACKS.values() if fnmatch.fnmatchcase(each.name, arguments.attack)]
    if arguments.list:
        print("\n".join(f"{each.name}: {each.about}" for each in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without stopping the broker
    print(HEAD, flush=True)
    found = []
    for each in chosen:
        found.append(inflict(each, arguments.broker_python, arguments.scale))
        print(line_of(found[-1]), flush=True)
        if arguments.keep:
            arguments.keep.write_text(json.dumps([damage._asdict() for damage in found], indent=1) + "\n")
    return 1 if arguments.asserts and not all(each.is_within_bound for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
