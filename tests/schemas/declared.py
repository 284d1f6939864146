"""Every message that the package declares, under Kafka's name, with the versions that Kafka 4.3.1 knows, or 3.9.1 still did."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import minibroker.schemas
from minibroker.schemas.internal import consumer_protocol, control_records, coordinator_records, metadata_records
from minibroker.wire.api import NEVER, api_of
from tests.schemas.kafka_fields import KafkaMessage, read_tables

# Structs that Kafka calls otherwise.
KAFKA_NAMES = {"ControlRecordKey": "ControlRecordTypeSchema"}
# Where taking words apart at capitals would spell a name oddly.
FIELD_NAMES = {"Enable2Pc": "enable_2pc", "KRaftVersion": "kraft_version", "KRaftVersionFeature": "kraft_version_feature"}


class Message(NamedTuple):
    """A struct that is sent or stored as a whole."""

    kafka: KafkaMessage
    struct: type[Any]
    flexible_since: int

    @property
    def versions(self) -> range:
        """All that Kafka knows, whether we serve them or not."""
        return range(self.kafka.versions.first, self.kafka.versions.last + 1)

    @property
    def current_versions(self) -> range:
        """Those that Kafka 4.3.1 knows; other implementations follow it."""
        return range(self.kafka.current_since, self.kafka.versions.last + 1)

    @property
    def old_versions(self) -> range:
        """Those that Kafka 4 no longer knows."""
        return range(self.kafka.versions.first, self.kafka.current_since)

    def flexible(self, version: int) -> bool:
        """Whether the version is a flexible one."""
        return version >= self.flexible_since


def schema_modules() -> list[ModuleType]:
    """The module of each API key."""
    names = sorted(each.name for each in pkgutil.iter_modules(minibroker.schemas.__path__) if not each.ispkg)
    return [importlib.import_module(f"minibroker.schemas.{name}") for name in names]


@cache
def messages() -> dict[str, Message]:
    """All of them by Kafka's name."""
    return {message.kafka.name: message for message in _all_messages()}


def _all_messages() -> Iterator[Message]:
    yield from _api_messages()
    yield from _metadata_messages()
    yield from _control_messages()
    yield from _coordinator_messages()


def _api_messages() -> Iterator[Message]:
    tables = read_tables()
    for module in schema_modules():
        api = api_of(module)
        yield Message(tables[f"{api.name}Request"], api.Request, api.flexible_since)
        yield Message(tables[f"{api.name}Response"], api.Response, api.flexible_since)


def _metadata_messages() -> Iterator[Message]:
    tables = read_tables()
    for record_type in metadata_records.RECORD_TYPES:
        yield Message(tables[record_type.struct.__name__], record_type.struct, 0)


def _control_messages() -> Iterator[Message]:
    tables = read_tables()
    structs = {each.struct: 0 if each.flexible else NEVER for each in control_records.CONTROL_TYPES}
    structs[control_records.ControlRecordKey] = NEVER
    for struct, flexible_since in structs.items():
        yield Message(tables[KAFKA_NAMES.get(struct.__name__, struct.__name__)], struct, flexible_since)


def _coordinator_messages() -> Iterator[Message]:
    tables = read_tables()
    for record_type in coordinator_records.ALL_RECORD_TYPES:
        yield Message(tables[record_type.key.__name__], record_type.key, NEVER)
        yield Message(tables[record_type.value.__name__], record_type.value, record_type.flexible_since)
    for struct in (consumer_protocol.ConsumerProtocolSubscription, consumer_protocol.ConsumerProtocolAssignment):
        yield Message(tables[struct.__name__], struct, NEVER)


def our_name(kafka_name: str) -> str:
    """The name of a field in our spelling: TopicId is topic_id."""
    if kafka_name in FIELD_NAMES:
        return FIELD_NAMES[kafka_name]
    return "".join(f"_{letter.lower()}" if letter.isupper() and at else letter.lower() for at, letter in enumerate(kafka_name))
