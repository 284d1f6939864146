"""A schema as the registry keeps it: its text with what belongs to it, and where it is registered.

Two schemas are the same if text, references, metadata and rule set are equal. The MD5 over these is
what ids are looked up by, and, written as a UUID, the GUID that clients see.

The words of a text are a quick way to see that two texts are not spellings of the same schema: a
registration compares its schema with every version of the subject, and parsing all of them after each
start would take long, for Protobuf a process each. Spellings of one schema have the same words:

    Avro, JSON Schema   names, values and attributes, without attributes that may be left out
    Protobuf            names and keywords, without comments and options
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

from minibroker.registry.errors import RegistryError

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"

Json = Mapping[str, Any]

_WORD: Final = re.compile(r"[^\W\d]\w*")
_LEFT_OUT: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r"|\[[^\[\]]*\]|\boption\b[^;{}]*;",  # options
    re.DOTALL,
)
_OPTIONAL: Final = frozenset({"namespace", "type", "order", "ascending", "syntax", "proto2"})
_KNOWN_MAX: Final = 16_384  #: texts whose words are remembered; an entry is a number


class Reference(NamedTuple):
    """A name in a schema that another version of a subject declares."""

    name: str
    subject: str
    version: int

    @classmethod
    def read(cls, value: object) -> Self:
        """The reference in a request or record. Raises RegistryError (422)."""
        if not isinstance(value, dict):
            raise RegistryError(422, "references must be a list of objects with name, subject and version")
        name, subject, version = value.get("name"), value.get("subject"), value.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not isinstance(version, int) or isinstance(version, bool):
            raise RegistryError(422, "a reference needs name (string), subject (string) and version (integer)")
        return cls(name, subject, version)


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """What makes a schema equal to another one: type, text, references, metadata, and rule set."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)  #: computed once

    @property
    def digest(self) -> bytes:
        """The MD5 of it, as Confluent's registry computes it."""
        if not self._digest:
            object.__setattr__(self, "_digest", self._computed_digest())
        return self._digest

    def _computed_digest(self) -> bytes:
        md5 = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            md5.update(reference.name.encode() + reference.subject.encode() + reference.version.to_bytes(4, "big", signed=True))
        if self.metadata is not None:
            md5.update(b"\x01" + _metadata_bytes(self.metadata))
        if self.rule_set is not None:
            md5.update(b"\x01" + _rule_set_bytes(self.rule_set))
        return md5.digest()

    @property
    def guid(self) -> str:
        """The digest as a UUID."""
        text = self.digest.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    content: SchemaContent
    is_deleted: bool = False

    def deleted(self) -> Self:
        """The same version, softly deleted."""
        return replace(self, is_deleted=True)


def _metadata_bytes(metadata: Json) -> bytes:
    """Tags, properties and the names of sensitive ones, each sorted."""
    parts: list[str] = []
    for key, values in sorted((metadata.get("tags") or {}).items()):
        parts += [key, *sorted(values)]
    for key, value in sorted((metadata.get("properties") or {}).items()):
        parts += [key, value]
    parts += sorted(metadata.get("sensitive") or ())
    return "".join(parts).encode()


def _rule_set_bytes(rule_set: Json) -> bytes:
    rules: list[Json] = []
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        rules += _list_of(rule_set.get(kind))
    return b"".join(map(_rule_bytes, rules)) + (rule_set.get("enableAt") or "").encode()


def _rule_bytes(rule: Json) -> bytes:
    parts = [rule.get(key) or "" for key in ("name", "doc", "kind", "mode", "type")]
    parts += sorted(_list_of(rule.get("tags")))
    for key, value in sorted((rule.get("params") or {}).items()):
        parts += [key, value]
    parts += [rule.get(key) or "" for key in ("expr", "onSuccess", "onFailure")]
    return "".join(parts).encode() + (b"\x01" if rule.get("disabled") else b"")


def _list_of(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


@lru_cache(_KNOWN_MAX)
def words_of(text: str, *, is_protobuf: bool) -> int | None:
    """A number that is equal for all spellings of a schema; None if its words cannot be seen in the text."""
    if is_protobuf:
        text = _LEFT_OUT.sub(" ", text)
    elif "\\u" in text:
        return None  # an escaped character may be part of a word
    return hash(frozenset(_WORD.findall(text)) - _OPTIONAL)


def may_be_equal(one: str, other: str, *, is_protobuf: bool) -> bool:
    """Whether two texts may be spellings of the same schema."""
    words = words_of(one, is_protobuf=is_protobuf), words_of(other, is_protobuf=is_protobuf)
    return None in words or words[0] == words[1]
