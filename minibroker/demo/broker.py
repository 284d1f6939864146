"""Start a broker for the demo as a user would: `minibroker serve` in a child process."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
ADDRESS = re.compile(r"(127\.0\.0\.1|localhost):(\d+)")


class DemoError(Exception):
    """A step of the demo failed, or gave a wrong figure; one line for the user."""


class Broker:
    """`minibroker serve` on a free port of 127.0.0.1, stopped at the end of the `with` block."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.bootstrap = ""
        self.ready_line = ""
        self.ready_ms = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "minibroker", "serve", "--port", "0", "--data-dir", str(self.data_dir)]
        started = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own program
        if self._process.stdout is None:
            raise DemoError("the broker has no standard output")
        for line in self._process.stdout:
            found = ADDRESS.search(line)
            if found:
                self.ready_ms = round((time.perf_counter() - started) * 1000)
                self.ready_line = line.strip()
                self.bootstrap = f"{found[1]}:{found[2]}"
                return self
        raise DemoError(f"the broker stopped with exit code {self._process.wait(READY_TIMEOUT_S)} before it was ready")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def minibroker(*arguments: str) -> str:
    """Run a minibroker command and return its output.

    Raises:
        DemoError: the command failed; the message is its error line.
    """
    done = subprocess.run([sys.executable, "-m", "minibroker", *arguments], capture_output=True, text=True, check=False)  # noqa: S603  our own program
    if done.returncode:
        raise DemoError(f"minibroker {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.rstrip()
