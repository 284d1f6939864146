"""A program as a child process whose output goes to a file: started, waited for, stopped, killed, and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

STOP_TIMEOUT_S = 180.0


class ChildProcess:
    """Runs from the constructor until `stop`, `kill` or the end of the context.

    Args:
        command: the program and its arguments.
        output: the file of its standard output and standard error; each `start` truncates it.
        append: keep in the file what earlier starts wrote.
        stdin: subprocess.PIPE for a program that reads; else it gets no input.
        has_group: start it in a process group of its own, all of which `kill` kills: a driver with its JVM and workers.
        cwd: its working directory.
        env: its environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        append: bool = False,
        stdin: int = subprocess.DEVNULL,
        has_group: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.command, self.output_path = list(command), output
        self._mode = "ab" if append else "wb"
        self._stdin, self._has_group, self._cwd, self._env = stdin, has_group, cwd, env
        self.start()

    def start(self) -> None:
        """Start the program, also again after it ended."""
        with self.output_path.open(self._mode) as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=self._stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=self._has_group,
                cwd=self._cwd,
                env=self._env,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self.output_path.read_text(errors="replace")

    def wait_for(self, pattern: str | re.Pattern[str], timeout_s: float) -> re.Match[str]:
        """Return the first match in the output.

        Raises:
            AssertionError: the program ended, or the pattern did not appear in time; then the program is killed.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            is_alive = self.is_alive  # before reading: what it wrote last counts
            found = re.search(pattern, self.output)
            if found:
                return found
            assert is_alive, f"{self.command[0]} ended with {self._process.returncode}:\n{self.output[-3000:]}"
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{self.command[0]} did not print {pattern!r} within {timeout_s} s:\n{self.output[-3000:]}")
            time.sleep(0.02)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, timeout_s: float) -> int:
        """Wait until it ends by itself, and return its exit code."""
        return self._process.wait(timeout_s)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM, wait, and return the exit code. If it does not end in time, kill it and raise TimeoutExpired."""
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Send SIGKILL, to the whole process group if it has one, and wait until the program is gone."""
        if self._has_group:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()

    def kill_alone(self) -> None:
        """Send SIGKILL to the program alone, not to its process group, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
