"""Attack a broker with an honest client beside it, and say what it cost: memory, CPU, and the honest client's waits.

    .venv/bin/python benchmarks/attacks.py                                   # this tree; about ten minutes
    .venv/bin/python benchmarks/attacks.py --broker-python OTHER/.venv/bin/python --keep before.json
    .venv/bin/python benchmarks/attacks.py --keep after.json
    .venv/bin/python benchmarks/attacks.py --compare before.json after.json  # Markdown, for the documentation

Each attack has its own broker. Memory is the kernel's peak of the resident set; the honest client's maximum is the longest stall.
Its figures are worth something on a quiet machine only. The exit code is 1 where a bound on memory is broken (`--assert`).
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import math
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from attacking.declaration import ATTACKS, Attack, Damage, Target, forget_peak, open_files, peak_mb, resident_mb
from attacking.disk import Disk
from peers import Minibroker, Unavailable

if TYPE_CHECKING:
    from attacking.secured_listeners import SecuredListeners

HERE = Path(__file__).parent
ROOT = HERE.parent
THEMES = ("expressions", "connections", "elements", "records", "many", "disks", "logins")
HONEST_TOPIC = "honest"
SETTLED_S = 1.0


class AttackedBroker(Minibroker):
    """A broker of any checkout, started with that checkout's Python."""

    start_timeout_s = stop_timeout_s = 120.0

    def __init__(self, python: str, attack: Attack) -> None:
        super().__init__(attack.properties)
        self._python = python
        self.disk = Disk(self.folder) if attack.needs_disk else None
        self.secured = secured_listeners(self.folder / "certificates", self.port) if attack.is_secured else None
        if self.secured is not None:
            self.properties |= self.secured.properties()

    @property
    def data_dir(self) -> Path:
        """The broker's log directory."""
        return super().data_dir if self.disk is None else self.disk.mounted / "data"

    def command(self) -> list[str]:
        """Return the command that a user types, run from a folder without another checkout."""
        words = super().command()
        if self.secured is not None:  # `listeners` has the ports
            words = [*words[: words.index("--port")], *words[words.index("--port") + 2 :]]
        prefix = [] if self.disk is None else self.disk.prefix
        return [*prefix, "/usr/bin/env", "-C", str(self.folder), self._python, *words[1:]]

    def output(self) -> str:
        """Return everything that this process wrote."""
        return (self.folder / "output.log").read_text(errors="replace")

    def last_words(self) -> str:
        """Return the exit code and the last line of output if the process has ended."""
        code = None if self._process is None else self._process.poll()
        return "the broker goes on" if code is None else f"exit code {code}: {self.output().splitlines()[-1]}"

    def stop(self, *, keep: bool = False) -> None:
        """Stop the broker and delete its data and its disk, unless kept for a second start."""
        super().stop(keep=keep)
        if self.disk is not None and not keep:
            self.disk.close()

    def restart(self, target: Target) -> None:
        """Restart the broker and note what that takes."""
        started = time.perf_counter()
        process = self._process
        self.stop(keep=True)
        code = None if process is None else process.returncode
        target.note(f"stopped in {time.perf_counter() - started:.1f} s with exit code {code}")
        try:
            self.start()
        except Unavailable:
            target.note(f"no answer {self.start_timeout_s:.0f} s after exec")
            return
        memory, files = resident_mb(self.pid), open_files(self.pid)
        target.note(f"first answer {self.cold_start_ms / 1000:.1f} s after exec, {memory:.0f} MB, {files} files open")


def secured_listeners(folder: Path, plain_port: int) -> SecuredListeners:
    """Make certificates and properties; they need `cryptography`."""
    from attacking.secured_listeners import SecuredListeners as Made  # noqa: PLC0415  most attacks do not need it

    return Made(folder, plain_port)


def honest_client(broker: AttackedBroker, *arguments: str) -> subprocess.Popen[str]:
    """Start a client beside the attack; by SASL_SSL if the broker has it."""
    host, port = broker.address
    if broker.secured is not None:
        port, arguments = broker.secured.sasl_ssl, ("--ca", str(broker.secured.ca), *arguments)
    command = [sys.executable, str(HERE / "honest.py"), host, str(port), HONEST_TOPIC, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def longest_turn(output: str) -> tuple[float, str]:
    """Return the longest turn that the watchdog reported, in ms, and what took it: (0, "") if it reported none.

    The watchdog reports at most one turn in ten seconds.
    """
    found = re.findall(r"WARNING (.*) held the event loop for (\d+) ms", output)
    return max(((float(ms), what) for what, ms in found), default=(0.0, ""))


def inflict(attack: Attack, python: str, scale: float) -> Damage:
    """Start a broker, attack it, and measure."""
    broker = AttackedBroker(python, attack)
    broker.start()
    target = Target(broker.address, broker.pid, scale)
    target.disk, target.secured = broker.disk, broker.secured
    honest = honest_client(broker)
    logins = None if broker.secured is None else honest_client(broker, "--logins")
    try:
        if attack.prepare is not None:
            attack.prepare(target)
        assert honest.stdout is not None  # noqa: S101  it is a pipe
        honest.stdout.readline()
        if logins is not None and logins.stdout is not None:
            logins.stdout.readline()
        time.sleep(SETTLED_S)
        earlier = broker.output()
        before, cpu, started = resident_mb(broker.pid), broker.cpu_seconds(), time.perf_counter()
        forget_peak(broker.pid)
        attack.run(target)
        seconds = time.perf_counter() - started
        peak, used = peak_mb(broker.pid) - before, math.nan
        with contextlib.suppress(OSError):  # it has ended
            used = broker.cpu_seconds() - cpu
        target.close()
        time.sleep(SETTLED_S)
        left = resident_mb(broker.pid) - before
        seen = _finish(honest, target)
        if logins is not None:
            entered = _finish(logins, target)
            target.note(f"logins of an honest client: p99 {entered['p99_ms']:.0f} ms, maximum {entered['max_ms']:.0f} ms")
        if attack.needs_disk:
            target.note(broker.last_words())
        turn_ms, what = longest_turn(broker.output()[len(earlier) :])
        if attack.restarts:
            broker.restart(target)
            turn_ms, what = max((turn_ms, what), longest_turn(broker.output()))
        if what:
            target.note(f"longest turn: {what}")
    finally:
        for each in (honest, logins):
            if each is not None:
                each.kill()
                each.wait()
        target.close()
        broker.stop()
    bound = None if attack.max_growth_mb is None else attack.max_growth_mb + attack.request_bytes / (1 << 20)
    notes = "; ".join(target.notes)
    return Damage(attack.name, attack.about, peak, left, used, seconds, seen["p99_ms"], seen["max_ms"], notes, bound, turn_ms)


def _finish(honest: subprocess.Popen[str], target: Target) -> dict[str, float]:
    """Return what the honest client measured, empty if the broker stopped answering it."""
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
    """Return the table for a terminal."""
    over = "" if damage.is_within_bound else f"  ABOVE ITS BOUND of {damage.bound_mb:.0f} MB"
    return (
        f"{damage.attack[:48]:48} {damage.peak_mb:8.0f} {damage.left_mb:8.0f} {damage.cpu_s:8.2f} {damage.seconds:8.1f} "
        f"{damage.honest_p99_ms:8.1f} {damage.honest_max_ms:8.0f} {damage.turn_ms:8.0f}  {damage.notes}{over}"
    )


HEAD = f"{'attack':48} {'peak MB':>8} {'left MB':>8} {'CPU s':>8} {'took s':>8} {'p99 ms':>8} {'max ms':>8} {'turn ms':>8}"


COLUMNS = {
    "peak_mb": ("Peak memory (MB)", 0),
    "left_mb": ("After it (MB)", 0),
    "cpu_s": ("CPU (s)", 1),
    "honest_p99_ms": ("Honest p99 (ms)", 1),
    "honest_max_ms": ("Honest maximum (ms)", 0),
    "turn_ms": ("Longest turn reported (ms)", 0),
}


def markdown(before: list[Damage], after: list[Damage]) -> list[str]:
    """Return two runs side by side, or `after` alone without an earlier run."""
    earlier = {each.attack: each for each in before}
    heads = [head for head, _ in COLUMNS.values()]
    lines = [f"| Attack | {' | '.join(heads)} | Notes |", "|---" * (len(heads) + 2) + "|"]
    for now in after:
        was = earlier.get(now.attack)
        cells = [_cell(was, now, name, digits) for name, (_, digits) in COLUMNS.items()]
        lines.append(f"| **{now.attack}**: {now.about} | {' | '.join(cells)} | {now.notes} |")
    return lines


def _cell(was: Damage | None, now: Damage, name: str, digits: int) -> str:
    then = f"{_figure(was, name, digits)} → " if was is not None and name != "turn_ms" else ""  # only the newer broker has a watchdog
    return then + _figure(now, name, digits)


def _figure(damage: Damage, name: str, digits: int) -> str:
    value = getattr(damage, name)
    return f"{value:,.{digits}f}" if math.isfinite(value) else "none"


def load(path: Path) -> list[Damage]:
    """Read a stored run."""
    return [Damage(**each) for each in json.loads(path.read_text())]


def main() -> int:
    """Run the attacks, or compare two runs."""
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
        try:
            found.append(inflict(each, arguments.broker_python, arguments.scale))
        except Unavailable as error:
            print(f"{each.name[:48]:48} left out: {error}", flush=True)
            continue
        print(line_of(found[-1]), flush=True)
        if arguments.keep:
            arguments.keep.write_text(json.dumps([damage._asdict() for damage in found], indent=1) + "\n")
    return 1 if arguments.asserts and not all(each.is_within_bound for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
