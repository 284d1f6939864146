"""Golden frames: bytes that real clients sent and that Apache Kafka answered, with their provenance.

`frames/kNN_name.jsonl` holds the frames of one API, one JSON object a line: name, client, command, broker, and the frame
in hexadecimal with its size prefix. A name reads `k21_delete_records_v2_request_java_4.3.1`. Of two frames of one client at
one version the shorter one ends in `_small`. `python -m tests.golden capture` lists the commands that take frames:

    file                                 capture        its frames
    frames/kNN_name.jsonl                clients, groups, streams, acls ...
    frames/kNN_name.kafka_3.9.1.jsonl    old            versions that Kafka 4 dropped, numbered in their order
    frames/kNN_name.transactions.jsonl   transactions   transactions and committed offsets, of APIs that other captures take as well
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from minibroker.wire.api import api_of

FRAMES = Path(__file__).parent / "frames"

SCHEMAS = Path(__file__).parents[2] / "minibroker" / "schemas"
_NAME = re.compile(r"(?P<stem>k(?P<key>\d+)_[a-z_]+?)_v(?P<version>\d+)_(?P<direction>request|response)_(?P<label>.+)")


class Provenance(NamedTuple):
    """Where a frame comes from."""

    client: str
    command: str
    broker: str


class Golden(NamedTuple):
    """One frame: `data` is all of it as it was on the wire, its size prefix included."""

    name: str
    stem: str
    api_key: int
    version: int
    direction: str
    data: bytes
    provenance: Provenance

    @property
    def schema(self) -> Any:
        """The schema module of its API."""
        return importlib.import_module(f"minibroker.schemas.{self.stem}")

    @property
    def frame(self) -> bytes:
        """The frame without its size prefix."""
        return self.data[4:]

    @property
    def flexible(self) -> bool:
        return bool(api_of(self.schema).flexible(self.version))

    @property
    def header_size(self) -> int:
        """Bytes between the size prefix and the body, worked out from the protocol guide and not by our own code."""
        if self.direction == "response":
            return 5 if self.flexible and self.api_key != 18 else 4
        client_id_size = max(int.from_bytes(self.frame[8:10], "big", signed=True), 0)
        return 10 + client_id_size + (1 if self.flexible else 0)

    @property
    def body(self) -> bytes:
        """The bytes that the schema's Request or Response describes."""
        return self.frame[self.header_size :]

    @property
    def struct(self) -> Any:
        """The schema's class for it."""
        return self.schema.Request if self.direction == "request" else self.schema.Response

    def decode(self) -> Any:
        """Its body by the strict codec."""
        from minibroker.wire.codec import decode

        return decode(self.struct, self.body, self.version, flexible=self.flexible)


def stem_of(api_key: int) -> str:
    """The file name that an API key has in schemas/, handlers/ and here."""
    (schema,) = SCHEMAS.glob(f"k{api_key:02}_*.py")
    return schema.stem


@functools.cache
def all_golden() -> dict[str, Golden]:
    """Every frame, by name."""
    frames = {}
    for file in sorted(FRAMES.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            parts = _NAME.fullmatch(entry["name"])
            assert parts is not None, entry["name"]
            frames[entry["name"]] = Golden(
                name=entry["name"],
                stem=parts["stem"],
                api_key=int(parts["key"]),
                version=int(parts["version"]),
                direction=parts["direction"],
                data=bytes.fromhex(entry["frame"]),
                provenance=Provenance(entry["client"], entry["command"], entry["broker"]),
            )
    return frames


def golden(name: str) -> Golden:
    """The frame of that name."""
    return all_golden()[name]
