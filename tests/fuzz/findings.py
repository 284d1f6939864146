"""What the fuzzer found, as files that can be sent again.

A file has a line of JSON about the finding, and one for each frame in the order of sending: the number of its connection and
its bytes, the size included, in hexadecimal; of long ones deflated. Files of findings that were mended go to `corpus/`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).parent / "corpus"
_LONG = 1000


class SentFrame(NamedTuple):
    """Bytes as they were sent on one connection."""

    connection: int
    data: bytes


class Finding(NamedTuple):
    """One thing that must not happen."""

    kind: str  #: what it is, the same words for the same cause
    detail: str
    frames: tuple[SentFrame, ...]  #: the last one is the most suspicious


def save(finding: Finding, folder: Path, seed: int, number: int) -> Path:
    """Write a finding; the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    words = "".join(letter if letter.isalnum() else "-" for letter in finding.kind)[:60].strip("-").lower()
    path = folder / f"{seed}-{number:02}-{words}.jsonl"
    about = {"kind": finding.kind, "detail": finding.detail, "seed": seed}
    lines = [json.dumps(about), *(json.dumps({"connection": each.connection, **_written(each.data)}) for each in finding.frames)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def load(path: Path) -> list[SentFrame]:
    """The frames of a finding."""
    _, *lines = path.read_text().splitlines()
    return [SentFrame(entry["connection"], _read(entry)) for entry in map(json.loads, lines)]


def _written(data: bytes) -> dict[str, str]:
    return {"frame": data.hex()} if len(data) <= _LONG else {"deflated": zlib.compress(data, 9).hex()}


def _read(entry: dict[str, str]) -> bytes:
    return bytes.fromhex(entry["frame"]) if "frame" in entry else zlib.decompress(bytes.fromhex(entry["deflated"]))


def corpus() -> Sequence[Path]:
    """Files of past findings, in the order of their names."""
    return sorted(CORPUS.glob("*.jsonl"))
