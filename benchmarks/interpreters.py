"""minibroker by several interpreters: the build of each, the one of `--broker-python`, and a broker for each `--python COMMAND`.

minibroker must be installed where the command finds it. In a round all run one after the other, like brokers.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from peers import Minibroker, Unavailable

#: Run by the interpreter in question. Debian and Ubuntu build with profiles, too, but their CONFIG_ARGS do not say so.
PROBE = """
import importlib.util, json, platform, sys, sysconfig
arguments = str(sysconfig.get_config_var("CONFIG_ARGS"))
found = {
    "implementation": platform.python_implementation(),
    "version": platform.python_version(),
    "optimised": "--enable-optimizations" in arguments or "/usr/share/python-wheels" in arguments or platform.system() == "Windows",
    "compiled": False,
}
if len(sys.argv) > 1 and importlib.util.find_spec("minibroker.compilation"):
    from minibroker.compilation import is_compiled
    found["compiled"] = is_compiled()
print(json.dumps(found))
"""


class Interpreter(NamedTuple):
    """An interpreter, and the build of minibroker that it imports."""

    implementation: str
    version: str
    optimised: bool  #: built with PGO
    compiled: bool  #: minibroker's modules

    @property
    def build(self) -> str:
        """Name interpreter and build, such as `CPython 3.14.0, optimised`."""
        compiled = ", compiled" if self.compiled else ""
        return f"{self.implementation} {self.version}, {'optimised' if self.optimised else 'NOT optimised'}{compiled}"

    @property
    def key(self) -> str:
        """The name of its broker in tables."""
        return f"minibroker {self.version}{'' if self.optimised else ' unoptimised'}{' compiled' if self.compiled else ''}"


def interpreter(command: Sequence[str] = (sys.executable,)) -> Interpreter:
    """Ask an interpreter. Raises Unavailable if the command does not start one."""
    try:
        done = subprocess.run([*command, "-c", PROBE, "minibroker"], capture_output=True, text=True, check=False, timeout=60)
    except OSError as error:
        raise Unavailable(f"{shlex.join(command)}: {error.strerror}") from error
    if done.returncode:
        raise Unavailable(f"{shlex.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return Interpreter(**json.loads(done.stdout.splitlines()[-1]))


def warning(found: Interpreter) -> str | None:
    """Return a line for the reader if the figures of an interpreter are not worth publishing."""
    if found.optimised:
        return None
    return (
        f"{found.implementation} {found.version} was built without PGO: its figures are a fifth to a third worse than an optimised build's"
    )


def peer_of(command: str, name: str) -> type[Minibroker]:
    """Return the broker of this name that runs by this command."""
    return type("MinibrokerByInterpreter", (Minibroker,), {"name": name, "python": shlex.split(command)})


def peers_of(commands: Iterable[str]) -> dict[str, tuple[str, type[Minibroker], Interpreter]]:
    """Return command, broker and interpreter by key."""
    asked = [(command, interpreter(shlex.split(command))) for command in commands]
    return {found.key: (command, peer_of(command, found.key), found) for command, found in asked}
