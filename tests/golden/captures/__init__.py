"""Captures: each module asks real clients and an Apache Kafka, and writes the results beside `tests/golden`, with their provenance.

    python -m tests.golden capture                      lists all captures
    python -m tests.golden capture NAME [ARGUMENTS]     calls `capture` of NAME.py

The provenance of older results names the command `tests.golden.capture_NAME`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from minibroker.errors import WireError
from tests.golden import FRAMES, Golden, Provenance, stem_of
from tests.support import java
from tests.support.capture_proxy import Captured


def write_frames(entries_of: Mapping[str, list[Any]], suffix: str = "") -> None:
    """Write the frames of each API to `frames/STEM{suffix}.jsonl`."""
    for stem, entries in entries_of.items():
        (FRAMES / f"{stem}{suffix}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def write_wire_log(path: str, frames: list[Captured], shown_keys: Collection[int]) -> None:
    """Write the conversation, one frame a line, with the decoded bodies of the given API keys. Connections of a client are mixed."""
    Path(path).write_text("\n".join(_wire_log(frames, shown_keys)) + "\n")


def _wire_log(frames: list[Captured], shown_keys: Collection[int]) -> Iterator[str]:
    for frame in frames:
        shown = "-"
        if frame.api_key in shown_keys:
            golden = Golden("", stem_of(frame.api_key), frame.api_key, frame.version, frame.direction, frame.data, Provenance("", "", ""))
            try:
                shown = str(golden.decode())[:2500]
            except WireError as error:  # a client that leaves bytes after its request
                shown = f"{error}: {frame.data.hex()}"
        yield f"{frame.label} [{frame.client_id}] {frame.direction} key={frame.api_key} v{frame.version} {shown}"


def dumped(data_dir: Path, topic: str = "__consumer_offsets", decoder: str = "--offsets-decoder") -> dict[str, Any]:
    """Return each segment of a coordinator's topic in hexadecimal, with its records as Kafka's tool prints them: offset, key, payload."""
    found: dict[str, Any] = {}
    for segment in sorted(data_dir.glob(f"{topic}-*/*.log")):
        output = java.run_tool(java.DUMP_LOG_SEGMENTS, decoder, "--files", str(segment))
        rows = [
            [int(offset), *words.split(" payload: ")]
            for offset, words in re.findall(r"^\| offset: (\d+) .*? key: (\{.*)$", output, re.MULTILINE)
        ]
        found[f"{segment.parent.name}/{segment.name}"] = {"segment": segment.read_bytes().hex(), "records": rows}
    return found
