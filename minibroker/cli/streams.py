"""The standard streams of a command: closed streams, full disks, and readers that are gone.

A shell may close a stream (`>&-`). The next file or socket would get its number, and Python replaces the stream by None.
`open_streams` gives the number to /dev/null, opened for the other direction, so that using the stream fails. Every failure of stdin or
stdout has the stream's name, for a message of one line.

`printable` escapes control characters, which could move the cursor of a terminal or change its colours.
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
#: C0 and C1 without tab and line feed, and DEL
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in {0x09, 0x0A}}
_FLAGS_OF_CLOSED: Final = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)  #: of stdin, stdout and stderr; output to stderr is lost


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
    """Open the standard streams, or make them fail with their name when they are used."""
    for number, flags in enumerate(_FLAGS_OF_CLOSED):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # open takes the lowest free number, which is this one
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Stream(0, "rb", closefd=False)))
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  for the whole process
    out = io.BufferedWriter(_Stream(1, "wb", closefd=False))
    stdout = sys.stdout
    if stdout is None:
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    elif isinstance(stdout, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(out, encoding=stdout.encoding, errors=stdout.errors, line_buffering=stdout.line_buffering)


def finish(code: object) -> int:
    """Flush stdout and return the exit code: `code`, unless that fails. Python's own flush at exit can then not fail."""
    number = code if isinstance(code, int) else 0 if code is None else FAILED
    try:
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not number and not isinstance(error, BrokenPipeError):  # the reader has what it needs and is gone (`| head`)
            number = FAILED
            with contextlib.suppress(OSError):
                print(f"Error: {words_of(error)}", file=sys.stderr, flush=True)
    return number


def words_of(error: OSError) -> str:
    """Return an OSError as text for a user, with the name of its file or stream."""
    words = error.strerror or str(error)
    if error.filename == STDOUT:
        return f"cannot write to stdout: {words}"
    if error.filename == STDIN:
        return f"cannot read stdin: {words}: give input by a pipe or a file"
    return f"{error.filename}: {words}" if error.filename else words


def drop_output() -> None:
    """Redirect stdout to /dev/null, with the content of its buffers."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def printable(text: str) -> str:
    """Replace control characters by hexadecimal escapes."""
    return text if text.isprintable() else text.translate(_ESCAPES)
