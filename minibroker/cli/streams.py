"""The standard streams of a command: closed ones, full disks, and readers that went away.

A shell may close a stream (`>&-`). Its number would then go to the next file or socket that is opened, and Python has None in its place.
`open_streams` gives the number to /dev/null, the wrong way round, so that using the stream fails as it should. Every failure of stdin or
stdout has the stream's name, so that one line can say what failed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

STDIN: Final = "stdin"
STDOUT: Final = "stdout"
FAILED: Final = 1
_FLAGS_OF_CLOSED: Final = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)  #: of stdin, stdout and stderr; what is written to stderr is lost


class _Stream(io.FileIO):
    """A standard stream whose errors have its name."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, at least a part."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STDOUT
            raise

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        try:
            return super().readinto(buffer)
        except OSError as error:
            error.filename = STDIN
            raise

    def readall(self) -> bytes:
        """Read to the end."""
        try:
            return super().readall()
        except OSError as error:
            error.filename = STDIN
            raise


def open_streams() -> None:
    """Make all three standard streams usable, or fail with their name when they are used."""
    for number, flags in enumerate(_FLAGS_OF_CLOSED):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Stream(0, "rb", closefd=False)))
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  for the whole process
    out = io.BufferedWriter(_Stream(1, "wb", closefd=False))
    given = sys.stdout
    if given is None:
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    elif isinstance(given, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(out, encoding=given.encoding, errors=given.errors, line_buffering=given.line_buffering)


def finish(code: object) -> int:
    """Write what is left to stdout and return the exit code: `code`, unless that fails. Python's own flush at its end cannot fail then."""
    number = code if isinstance(code, int) else 0 if code is None else FAILED
    try:
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not number and not isinstance(error, BrokenPipeError):  # a reader that went away has what it wanted (`| head`)
            number = FAILED
            with contextlib.suppress(OSError):
                print(f"Error: {words_of(error)}", file=sys.stderr, flush=True)
    return number


def words_of(error: OSError) -> str:
    """An error of the file system for a user, by the name of its file or stream."""
    words = error.strerror or str(error)
    if error.filename == STDOUT:
        return f"cannot write to stdout: {words}"
    if error.filename == STDIN:
        return f"cannot read stdin: {words}: give input by a pipe or a file"
    return f"{error.filename}: {words}" if error.filename else words


def drop_output() -> None:
    """Point stdout to nothing: what is left in its buffers goes there."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
