"""Two brokers that get the same requests: raw connections, pairs of ids, and answers whose free values are masked.

What each broker draws for itself is a pair, ours and Apache Kafka's, found by a name: topic ids, producer ids, session ids. A request is
made for each side from its half of the pairs; an answer is made plain (dicts and lists), and its ids turn into the names again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from minibroker.client.connection import decode_response, encode_request
from minibroker.client.errors import BrokerUnreachable
from minibroker.client.transport import Deadline, SocketTransport, parse_bootstrap
from minibroker.errors import KafkaError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas import k18_api_versions
from minibroker.wire.api import api_of
from minibroker.wire.schema import NIL_UUID, Struct, fields_of

OURS, KAFKAS = 0, 1
SIDES: Final = (OURS, KAFKAS)
CLOSED: Final = "the connection was closed"
SILENCE: Final = "no answer"

Make = Callable[[int], Any]  #: the request for a side
_TIMEOUT_MS: Final = 60_000
_FREE: Final = {"throttle_time_ms", "host", "port", "cluster_id", "log_dir", "total_bytes", "usable_bytes", "documentation"}


class Peer:
    """One connection to one broker, made anew when the broker closed it."""

    def __init__(self, bootstrap: str, client_id: str = "twin") -> None:
        (self._address,) = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._transport: SocketTransport | None = None
        self._correlation_id = 0

    def ask(self, schema: ModuleType, version: int, request: Any, *, is_answered: bool = True) -> Any:
        """The response, CLOSED, or SILENCE where none is due and the connection lives on."""
        api, deadline = api_of(schema), Deadline(_TIMEOUT_MS)
        if self._transport is None:
            self._transport = SocketTransport(self._address, deadline)
        self._correlation_id += 1
        try:
            self._transport.send(encode_request(api, version, self._correlation_id, self._client_id, request), deadline)
            if is_answered:
                return decode_response(api, version, self._correlation_id, self._transport.receive(deadline))
            return SILENCE if self.ask(k18_api_versions, 0, k18_api_versions.Request()) is not CLOSED else CLOSED
        except BrokerUnreachable:
            self.close()
            return CLOSED

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None


class Twins:
    """Both brokers and the ids that they gave out."""

    def __init__(self, ours: str, kafkas: str) -> None:
        self.peers = (Peer(ours), Peer(kafkas))
        self.topic_ids: dict[str, tuple[UUID, UUID]] = {}  #: also of topics that are gone, under another name
        self.append_times_from_ms = 2**63  #: record timestamps from then on are the brokers' own
        self.append_times_until_ms = 2**63
        self.free = set(_FREE)  #: names of fields that are not compared
        self.producer_ids: list[tuple[int, int]] = []
        self._names: tuple[dict[Any, str], dict[Any, str]] = ({}, {})
        for unknown in range(20):
            self._names[0][self.unknown_id(unknown)] = self._names[1][self.unknown_id(unknown)] = "id of nothing"

    def ask(self, schema: ModuleType, version: int, make: Make, *, is_answered: bool = True) -> tuple[Any, Any]:
        """Ours and Kafka's answer, raw."""
        ours, kafkas = (self.peers[side].ask(schema, version, make(side), is_answered=is_answered) for side in SIDES)
        return ours, kafkas

    def learn_topic(self, name: str, ids: tuple[UUID, UUID]) -> None:
        """From now on `name` is these topics."""
        self.topic_ids[name] = ids
        for side in SIDES:
            self._names[side][ids[side]] = f"id of {name}"

    def learn_producer(self, ids: tuple[int, int]) -> int:
        """Number of a new producer."""
        for side in SIDES:
            self._names[side]["producer", ids[side]] = f"producer {len(self.producer_ids)}"
        self.producer_ids.append(ids)
        return len(self.producer_ids) - 1

    def topic_id(self, name: str, side: int) -> UUID:
        """The side's id of a topic; one that neither side knows for a name without one."""
        ids = self.topic_ids.get(name)
        return ids[side] if ids else self.unknown_id(len(name) % 20)

    @staticmethod
    def unknown_id(number: int) -> UUID:
        """An id that neither side gave out."""
        return UUID(int=0x1234_0000_0000_4000_8000_0000_0000_0000 + number)

    def plain(self, value: Any, side: int) -> Any:
        """An answer without what is free."""
        if isinstance(value, Struct):
            return {field.name: self._field(field.name, getattr(value, field.name), side) for field in fields_of(type(value))}
        if isinstance(value, list | tuple):
            return [self.plain(each, side) for each in value]
        if isinstance(value, UUID) and value != NIL_UUID:
            return self._names[side].get(value, "a new id")
        return value

    def _field(self, name: str, value: Any, side: int) -> Any:
        if name in self.free:
            return "*"
        if name == "session_id":
            return "a session" if value else value
        if name in {"error_message", "batch_index_error_message"}:
            return None if value is None else "words"
        if name == "producer_id" and value >= 0:
            return self._names[side].get(("producer", value), "new producer")
        if name == "timestamp" and self.append_times_from_ms <= value < self.append_times_until_ms:
            return "a time"
        if name == "log_append_time_ms" and value >= 0:
            return "a time"
        if name == "records":
            return None if value is None else self.batches(value, side)
        return self.plain(value, side)

    def batches(self, data: Any, side: int) -> list[dict[str, Any]]:
        """The whole batches of fetched records; Apache Kafka cuts the last one off where the limit is."""
        return [self._batch(batch, side) for batch in split_batches(data, allow_partial=True)]

    def _batch(self, batch: Any, side: int) -> dict[str, Any]:
        is_stamped = bool(batch.timestamp_type) or batch.is_control
        try:
            records = [
                (record.offset, "*" if is_stamped else record.timestamp, record.key, record.value, record.headers)
                for record in decode_records(batch)
            ]
        except KafkaError as error:
            records = [(0, error.name, None, None, ())]
        return {
            "base_offset": batch.base_offset,
            "last_offset_delta": batch.last_offset_delta,
            "leader_epoch": "*" if "leader_epoch" in self.free else batch.partition_leader_epoch,
            "attributes": batch.attributes,
            "crc": batch.check_crc(),
            "max_timestamp": "*" if is_stamped else batch.max_timestamp,
            "producer": self._names[side].get(("producer", batch.producer_id), str(min(batch.producer_id, 0))),
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "records": records,
        }


def differences(ours: Any, kafkas: Any, path: str = "") -> list[str]:
    """Where two plain answers differ."""
    if isinstance(ours, Mapping) and isinstance(kafkas, Mapping):
        keys = [*ours, *(key for key in kafkas if key not in ours)]
        return [each for key in keys for each in differences(ours.get(key), kafkas.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(kafkas, list) and (len(ours) == len(kafkas) or path.endswith(".records")):
        found = [each for index, pair in enumerate(zip(ours, kafkas, strict=False)) for each in differences(*pair, f"{path}[{index}]")]
        return found if len(ours) == len(kafkas) else [*found, f"{path}: ours {_short(ours)}, Kafka's {_short(kafkas)}"]
    return [] if ours == kafkas else [f"{path}: ours {_short(ours)}, Kafka's {_short(kafkas)}"]


def _short(value: Any) -> str:
    text = repr(value)
    with suppress(TypeError):
        text = f"({len(value)}) {text}" if isinstance(value, list) else text
    return text if len(text) < 200 else f"{text[:197]}..."
