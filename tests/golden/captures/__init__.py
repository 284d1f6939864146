"""Captures: each module asks real clients and an Apache Kafka, and writes the results beside `tests/golden`, with their provenance.

    python -m tests.golden capture                      lists all captures
    python -m tests.golden capture NAME [ARGUMENTS]     calls `capture` of NAME.py

The provenance of older results names the command `tests.golden.capture_NAME`.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minibroker.errors import WireError
from tests.golden import FRAMES, Golden, Provenance, stem_of
from tests.support import java
from tests.support.capture_proxy import Captured, CaptureProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port

#: by the label of the frames: a function that runs the client against an address, the client's name and version, the command
Catalogue = Mapping[str, tuple[Callable[[str], None], str, str]]


@contextmanager
def kafka_behind_proxy(settings: Mapping[str, str]) -> Iterator[tuple[KafkaProcess, CaptureProxy]]:
    """Run an Apache Kafka that advertises the address of a proxy, which keeps the frames."""
    port = free_port()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings={**settings, **advertised}) as kafka:
        proxy = CaptureProxy(port, ("127.0.0.1", kafka.port))
        try:
            yield kafka, proxy
        finally:
            proxy.close()


def drive_clients(proxy: CaptureProxy, catalogue: Catalogue, *, keeps_going: bool = False) -> None:
    """Run each client against the proxy, and print the number of its frames. `keeps_going`: also after a client that fails."""
    for label, (drive, client, _) in catalogue.items():
        proxy.label = label
        before = len(proxy.frames)
        print(f"{label} ...", flush=True)
        try:
            drive(f"127.0.0.1:{proxy.port}")
        except Exception as error:
            if not keeps_going:
                raise
            print(f"FAILED: {error!r}", flush=True)
        print(f"{client}: {len(proxy.frames) - before} frames", flush=True)


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
