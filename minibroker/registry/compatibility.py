"""Compatibility levels: which earlier versions a new schema is compared with, and which side reads.

level      the new schema ...
BACKWARD   reads what the last version wrote
FORWARD    is read by the last version
FULL       both
.._TRANSITIVE   the same with all versions instead of the last one
NONE       is not compared
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.registry.parsed_schema import ParsedSchema
from minibroker.registry.stored_schema import StoredSchema

_SHOWN_MAX: Final = 10 * 1024  #: characters of an old schema in a message


class Level(NamedTuple):
    """What a compatibility level asks for."""

    reads_old: bool = False
    is_read_by_old: bool = False
    is_transitive: bool = False


LEVELS: Final = {
    "NONE": Level(),
    "BACKWARD": Level(reads_old=True),
    "BACKWARD_TRANSITIVE": Level(reads_old=True, is_transitive=True),
    "FORWARD": Level(is_read_by_old=True),
    "FORWARD_TRANSITIVE": Level(is_read_by_old=True, is_transitive=True),
    "FULL": Level(reads_old=True, is_read_by_old=True),
    "FULL_TRANSITIVE": Level(reads_old=True, is_read_by_old=True, is_transitive=True),
}
DEFAULT_LEVEL: Final = "BACKWARD"


def compared_versions(level_name: str, earlier: Sequence[StoredSchema]) -> list[StoredSchema]:
    """The versions that a new schema is compared with, the newest first. `earlier` is in ascending order."""
    level = LEVELS[level_name]
    if not (level.reads_old or level.is_read_by_old):
        return []
    return [*reversed(earlier if level.is_transitive else earlier[-1:])]


def incompatibilities(level_name: str, new: ParsedSchema, earlier: Sequence[tuple[StoredSchema, ParsedSchema | None]]) -> list[str]:
    """Why a schema may not follow earlier versions, of which the first one that is not compatible is reported; empty if it may.

    `earlier` are the `compared_versions`. One without a parsed schema has another schema type.
    """
    for old, parsed_old in earlier:
        if parsed_old is None:
            messages = ["Incompatible because of different schema type"]
        else:
            messages = _compare(LEVELS[level_name], new, parsed_old, old)
        if messages:
            return [*messages, f"{{validateFields: 'false', compatibility: '{level_name}'}}"]
    return []


def _compare(level: Level, new: ParsedSchema, parsed_old: ParsedSchema, old: StoredSchema) -> list[str]:
    messages: list[str] = []
    if level.is_read_by_old:
        messages += [each % {"reader": "old", "writer": "new"} for each in parsed_old.differences(new)]
    if level.reads_old:
        messages += [each % {"reader": "new", "writer": "old"} for each in new.differences(parsed_old)]
    if messages:
        text = old.content.text
        shown = f"'{text}'" if len(text) <= _SHOWN_MAX else f"<truncated> '{text[:_SHOWN_MAX]}...'"
        messages += [f"{{oldSchemaVersion: {old.version}}}", f"{{oldSchema: {shown}}}"]
    return messages
