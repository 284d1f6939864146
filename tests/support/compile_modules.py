"""`python -m tests.support.compile_modules`: compile what a first start would have to compile. Part of `make setup`.

All of the package is compiled, and of everything else what `serve` imports: pip is told by CI not to compile what is never imported.
`py_compile` writes its files whatever PYTHONDONTWRITEBYTECODE says, which keeps a start from writing them.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import py_compile
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import minibroker

_FROM_SOURCE = re.compile(r"^# code object from (?P<path>[^'].*\.py)$", re.MULTILINE)  #: what `python -v` says of a module without bytecode


def compiled_at_a_start() -> list[Path]:
    """Start a broker and stop it; return the source files that Python compiled for that."""
    with tempfile.TemporaryDirectory(prefix="minibroker-setup-") as folder, (Path(folder) / "said").open("w+b") as said:
        process = subprocess.Popen(
            [sys.executable, "-v", "-m", "minibroker", "serve", "--data-dir", f"{folder}/data", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        with process:
            assert process.stdout is not None
            is_ready = b"minibroker ready" in process.stdout.readline()
            process.terminate()
        said.seek(0)
        words = said.read().decode(errors="replace")
    if not is_ready:
        lines = [line for line in words.splitlines() if not line.startswith(("#", "import "))]
        raise SystemExit("a broker does not start:\n" + "\n".join(lines[-20:]))
    return [Path(path) for path in _FROM_SOURCE.findall(words)]


def main() -> None:
    """Compile the package, then what else a start needs."""
    compileall.compile_dir(Path(minibroker.__file__).parent, quiet=1, workers=0)
    for path in compiled_at_a_start():
        with contextlib.suppress(OSError):  # of a Python that belongs to another user
            py_compile.compile(str(path), quiet=1)


if __name__ == "__main__":
    main()
