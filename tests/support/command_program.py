"""A program in another language that runs commands from its standard input: one a line, with tabs between the words.

It answers each command with lines and then `ok`, or with `failed` and the reason.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import Self


class ProgramError(Exception):
    """A command failed, or the program ended."""


class CommandProgram:
    """Runs from the constructor to the end of the context. Several threads may call `ask`."""

    def __init__(self, command: list[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
        )

    def ask(self, *words: object) -> list[str]:
        """Send a command and return the lines of its answer. Raise what `error` returns if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write("\t".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            lines: list[str] = []
            for line in self._process.stdout:
                text = line.rstrip("\n")
                if text == "ok":
                    return lines
                if text.startswith("failed "):
                    raise self.error(text.removeprefix("failed "))
                lines.append(text)
            raise self.error(f"the program ended with {self._process.wait()}")

    def kill(self) -> None:
        """Send SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def error(self, text: str) -> Exception:
        """Return the exception for a failure."""
        return ProgramError(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
