"""Input of `produce`: messages from files and stdin, and a progress bar."""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import click

CHUNK_BYTES = 1024 * 1024
IDLE_S = 0.005  #: records are sent after a source has been silent for this time: linger.ms


class Progress:
    """A progress bar on stderr over the bytes of all files. Shows nothing without a terminal or without known sizes."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._bar: Any = None
        if files and sys.stderr.isatty() and all(file.is_file() for file in files):
            self._bar = click.progressbar(length=sum(file.stat().st_size for file in files), label="producing", file=sys.stderr)

    def advance(self, size: int) -> None:
        """Count bytes that were read."""
        if self._bar is not None:
            self._bar.update(size)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)


def messages(file: Path, delimiter: bytes | None, progress: Progress, idle: Callable[[], None]) -> Iterator[bytes]:
    """Yield the messages of a file, or of stdin for `-`. Without a delimiter, the whole file is one message.

    Calls `idle` while the source is silent, so that the messages of a slow source are sent.
    A delimiter at the end of the source does not start another message.
    """
    if str(file) == "-":
        yield from _split(sys.stdin.buffer, delimiter, progress, idle)
        return
    with file.open("rb") as stream:
        yield from _split(stream, delimiter, progress, idle)


def _split(stream: BinaryIO, delimiter: bytes | None, progress: Progress, idle: Callable[[], None]) -> Iterator[bytes]:
    rest = bytearray()
    for chunk in _chunks(stream, idle):
        progress.advance(len(chunk))
        if delimiter is None:
            rest += chunk
            continue
        if len(delimiter) == 1 and delimiter not in chunk:
            rest += chunk
            continue
        *ended, last = bytes(rest + chunk).split(delimiter)
        yield from ended
        rest = bytearray(last)
    if rest or delimiter is None:
        yield bytes(rest)


def _chunks(stream: BinaryIO, idle: Callable[[], None]) -> Iterator[bytes]:
    """Yield bytes as they arrive."""
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        yield stream.read()
        return
    while True:
        if not select.select([descriptor], [], [], IDLE_S)[0]:
            idle()
        chunk = cast("io.BufferedReader", stream).read1(CHUNK_BYTES)  # one system call; nothing stays in a buffer
        if not chunk:
            return
        yield chunk
