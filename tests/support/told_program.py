"""A program of another language that is told what to do: a command a line on its standard input, words between tabs.

It answers each with lines, and then `ok`, or `failed` with what went wrong.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import Self


class ProgramError(Exception):
    """A command failed, or the program ended."""


class ToldProgram:
    """Starts here and ends with the context; several threads may ask."""

    def __init__(self, command: list[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
        )

    def ask(self, *words: object) -> list[str]:
        """Give a command; the lines of its answer. Raises ProgramError, or what `error` makes of it."""
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
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def error(self, text: str) -> Exception:
        """What is raised for a failure."""
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
