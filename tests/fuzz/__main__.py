"""The fuzzer's command line; see the package's docstring."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tests.fuzz.findings import corpus
from tests.fuzz.run import Run

SOAK_FRAMES = 1_000_000


def main() -> int:
    """Run or replay; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz a broker, or send the frames of findings again.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="start a broker and fuzz it")
    run.add_argument("--frames", type=int, default=SOAK_FRAMES, help="how many frames (default: %(default)s)")
    run.add_argument("--seed", type=int, default=0, help="of all chance (default: a new one)")
    run.add_argument("--logins", action="store_true", help="fuzz listeners with TLS and SASL before the login; frames are conversations")
    run.add_argument("--assert-latency", action="store_true", help="fail where the honest client waits too long; for a quiet machine")
    replay = commands.add_parser("replay", help="send the frames of findings to a new broker")
    replay.add_argument("files", type=Path, nargs="+", metavar="FILE")
    for command in (run, replay):
        command.add_argument("--folder", type=Path, help="where data, log and findings go (default: a temporary folder)")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="minibroker-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.command == "replay":
        outcome = Run(folder, 1, _say).replay(arguments.files)
    else:
        seed = arguments.seed or SystemRandom().randrange(1, 1_000_000)
        _say(f"seed {seed}, files in {folder}")
        outcome = Run(folder, seed, _say, logins=arguments.logins).fuzz(arguments.frames, () if arguments.logins else corpus())
    slow = outcome.slowness() if arguments.command == "run" and arguments.assert_latency else []
    for line in (*outcome.lines(), *slow):
        _say(line)
    return 1 if outcome.findings or slow else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
