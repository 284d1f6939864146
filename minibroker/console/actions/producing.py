"""Produce records from a form: copies, headers, tombstones, and transactions that commit, abort or stay open."""

from __future__ import annotations

import base64
import binascii
import random
from typing import Any, Final, NamedTuple

from minibroker.client.producer import murmur2
from minibroker.console.asking import check
from minibroker.console.forms import flag, number, text
from minibroker.console.page import Visit
from minibroker.console.rendering import url
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k10_find_coordinator, k22_init_producer_id, k24_add_partitions_to_txn, k26_end_txn
from minibroker.security.acl import Operation, ResourceType

_COPIES_MAX: Final = 1_000
_BYTES_MAX: Final = 16 * 1024 * 1024  #: of all copies together
_TIMEOUT_MS: Final = 30_000
_TRANSACTION_MS: Final = 60_000
_ENDS: Final = ("none", "commit", "abort", "open")
#: The versions before KIP-890, in which a producer adds partitions itself: they work with every transaction.version.
_PRODUCE, _ADD, _END = 11, 3, 4


class _Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int


async def produce(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Produce to `topic`.

    Fields: `partition` (empty: by the key, as Java does), `key`, `value`, `headers` (a line NAME=VALUE for each), `is_tombstone`,
    `encoding` (text or base64), `copies`, `compression`, `transaction` (none, commit, abort, open) and `transactional_id`.
    With `key_schema` or `value_schema`, a subject, the key or value is JSON, which is encoded. `key_message` and `value_message` are
    messages of a Protobuf schema, by default its first.
    """
    name = text(body, "topic")
    visit.visitor.check(Operation.WRITE, ResourceType.TOPIC, name)  # first: otherwise the error shows which topics exist
    topic = visit.host.cluster.topic(name)
    records = await _records(visit, body)
    partition = partition_of(body, len(topic.partitions), records[0].key)
    end, codec = text(body, "transaction", "none"), Compression.from_name(text(body, "compression", "none"))
    if end not in _ENDS:
        raise ValueError(f"transaction must be one of {', '.join(_ENDS)}, got {end[:30]!r}")
    producer = None
    if end != "none":
        producer = await _begin(visit, text(body, "transactional_id", "").strip() or "minibroker-console", topic.name, partition)
    options: dict[str, Any] = {"compression": codec}
    if producer is not None:
        options |= {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "base_sequence": 0,
            "is_transactional": True,
        }
    data = k00_produce.Partition(index=partition, records=memoryview(build_batch(records, **options)))
    request = k00_produce.Request(
        transactional_id=None if producer is None else producer.transactional_id,
        acks=-1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[k00_produce.Topic(name=topic.name, partition_data=[data])],
    )
    response = await visit.ask(request, _PRODUCE)
    result = response.responses[0].partition_responses[0]
    check(result.error_code, result.error_message)
    if producer is not None and end != "open":
        request_end = k26_end_txn.Request(
            transactional_id=producer.transactional_id, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch,
            committed=end == "commit",
        )  # fmt: skip
        check((await visit.ask(request_end, _END)).error_code)
    first, last = result.base_offset, result.base_offset + len(records) - 1
    where = f"offset {first}" if first == last else f"offsets {first} to {last}"
    words = {"none": "", "commit": ", committed", "abort": ", aborted", "open": ", in a transaction that is open"}
    return {
        "message": f"wrote {where} of {topic.name}-{partition}{words[end]}",
        "partition": partition,
        "base_offset": first,
        "last_offset": last,
        "link": url("/records", topic=topic.name, partition=partition, from_="offset", offset=first),
    }


async def _records(visit: Visit, body: dict[str, Any]) -> list[Record]:
    key = await _part(visit, body, "key")
    value = None if flag(body, "is_tombstone") else await _part(visit, body, "value")
    headers = []
    for line in text(body, "headers", "").splitlines():
        if line.strip():
            name, equals, content = line.partition("=")
            headers.append((name.strip(), content.strip().encode() if equals else None))
    copies = number(body, "copies", 1, least=1, most=_COPIES_MAX)
    if copies * (len(value or b"") + len(key)) > _BYTES_MAX:
        raise ValueError(f"{copies} copies are larger than {_BYTES_MAX} bytes together")
    now_ms = visit.host.now_ms()
    has_key = bool(key) or flag(body, "has_empty_key")
    return [Record(index, now_ms, key if has_key else None, value, tuple(headers)) for index in range(copies)]


async def _part(visit: Visit, body: dict[str, Any], name: str) -> bytes:
    """Return the key or value, by the latest schema of the subject in `key_schema` or `value_schema` if there is one."""
    given, subject = text(body, name, ""), text(body, f"{name}_schema", "").strip()
    if not subject or (not given and name == "key"):
        return _content(given, text(body, "encoding", "text"), name)
    if visit.host.decoder is None:
        raise ValueError("this console has no schema registry: start the broker with --registry-port or --console-registry")
    try:
        return await visit.host.decoder.encode(given, subject, text(body, f"{name}_message", "").strip() or None, visit)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _content(given: str, encoding: str, name: str) -> bytes:
    if encoding == "text":
        return given.encode(errors="surrogatepass")
    if encoding != "base64":
        raise ValueError(f"encoding must be text or base64, got {encoding[:30]!r}")
    try:
        return base64.b64decode(given, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is not base64: {error}") from None


def partition_of(body: dict[str, Any], count: int, key: bytes | None) -> int:
    """Return the partition in a form, or the one that a client would choose."""
    if body.get("partition") not in (None, ""):  # a tuple: the value may be a list
        return number(body, "partition", least=0, most=2**31 - 1)
    return random.randrange(count) if key is None else (murmur2(key) & 0x7FFFFFFF) % count  # noqa: S311  which partition is no secret


async def _begin(visit: Visit, transactional_id: str, topic: str, partition: int) -> _Producer:
    """Begin a transaction; one of the same id that is open is aborted."""
    found = await visit.ask(k10_find_coordinator.Request(key_type=k10_find_coordinator.TRANSACTION, coordinator_keys=[transactional_id]))
    check(found.coordinators[0].error_code, found.coordinators[0].error_message)
    began = await visit.ask(k22_init_producer_id.Request(transactional_id=transactional_id, transaction_timeout_ms=_TRANSACTION_MS))
    check(began.error_code)
    request = k24_add_partitions_to_txn.Request(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=began.producer_id,
        v3_and_below_producer_epoch=began.producer_epoch,
        v3_and_below_topics=[k24_add_partitions_to_txn.Topic(name=topic, partitions=[partition])],
    )
    added = await visit.ask(request, _ADD)
    check(added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    return _Producer(transactional_id, began.producer_id, began.producer_epoch)
