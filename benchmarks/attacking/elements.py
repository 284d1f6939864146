"""Frames of tiny elements: each becomes Python objects, so a request may need many times its size."""

from __future__ import annotations

import struct

import frames
from transaction_frames import flexible, unsigned

from attacking import requests
from attacking.declaration import Target, attack

MEGABYTE = 1 << 20
LARGE = 99 * MEGABYTE


def _one(target: Target, frame: bytes) -> None:
    answer = target.ask(frame)
    target.note(f"answer of {len(answer)} bytes" if answer else "closed")


@attack("Produce 3: 10 MB of empty topics", "one request", request_bytes=10 * MEGABYTE, max_growth_mb=128)
def produce_empty_topics(target: Target) -> None:
    """A topic of six bytes."""
    count = 10 * MEGABYTE // 6
    _one(target, requests.produce_old(bytes(6 * count), count))


@attack("AlterClientQuotas 1: 2 MB of empty entries", "one request", request_bytes=2 * MEGABYTE, max_growth_mb=128)
def quotas(target: Target) -> None:
    """An entry of three bytes."""
    count = 2 * MEGABYTE // 3
    _one(target, flexible(49, 1, unsigned(count + 1) + b"\x01\x01\0" * count + b"\0\0"))


@attack("OffsetFetch 1: 2 MB of empty topics", "one request", request_bytes=2 * MEGABYTE, max_growth_mb=128)
def offset_fetch(target: Target) -> None:
    """A topic of six bytes."""
    count = 2 * MEGABYTE // 6
    target.ask(requests.find_coordinator(b"g", 0))
    _one(target, frames.frame(9, 1, frames.string(b"g") + struct.pack(">i", count) + bytes(6 * count)))


@attack("Metadata 12: 2 MB of empty topics", "one request", request_bytes=2 * MEGABYTE, max_growth_mb=128)
def metadata(target: Target) -> None:
    """A topic of 18 bytes: an id, no name."""
    count = 2 * MEGABYTE // 18
    _one(target, flexible(3, 12, unsigned(count + 1) + (bytes(16) + b"\0\0") * count + b"\0\0\0"))


@attack("FindCoordinator 4: 2 MB of empty keys", "one request", request_bytes=2 * MEGABYTE, max_growth_mb=128)
def find_coordinator(target: Target) -> None:
    """A key of one byte."""
    count = 2 * MEGABYTE
    _one(target, flexible(10, 4, b"\0" + unsigned(count + 1) + b"\x01" * count + b"\0"))


@attack("Produce 3: 99 MB of empty topics", "one request", request_bytes=LARGE, max_growth_mb=128)
def produce_large(target: Target) -> None:
    """The same in a frame of the largest allowed size."""
    count = LARGE // 6
    _one(target, requests.produce_old(bytes(6 * count), count))


@attack("FindCoordinator 4: 99 MB of empty keys", "one request", request_bytes=LARGE, max_growth_mb=128)
def keys_large(target: Target) -> None:
    """The same."""
    _one(target, flexible(10, 4, b"\0" + unsigned(LARGE + 1) + b"\x01" * LARGE + b"\0"))


@attack("Fetch 12: 99 MB of tagged fields", "one request", request_bytes=LARGE, max_growth_mb=128)
def tags(target: Target) -> None:
    """Empty tagged fields with ascending tags."""
    head = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1) + b"\x01\x01\x01"
    count = min(LARGE // 5, 8_000_000)
    fields = b"".join(unsigned(tag) + b"\0" for tag in range(10, count + 10))
    _one(target, flexible(1, 12, head + unsigned(count) + fields))


@attack(
    "every API: 8 MB of its smallest elements",
    "one request after another, each array of each newest version",
    request_bytes=8 * MEGABYTE,
    max_growth_mb=128,
)
def every_api(target: Target) -> None:
    """Frames from the schemas, where only sizes matter."""
    from tests.support.worst_frames import schemas, worst_frames  # noqa: PLC0415  the only attack that needs this project's code

    target.ask(requests.find_coordinator(b"", 0))
    closed = 0
    for key in sorted(schemas):
        for frame in worst_frames(schemas[key], schemas[key].VERSIONS[1], size=8 * MEGABYTE):
            closed += not target.ask(struct.pack(">i", len(frame)) + frame)
    target.notes[:] = [f"{closed} of them closed their connection"]
