"""What the registry needs of a schema, whatever its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

SIZE_MAX = 900_000  #: bytes of a schema's text: a record of the topic has 1 MB at most


class ReferencedSchema(NamedTuple):
    """A schema that another one references: the name in the reference, and the text."""

    name: str
    text: str


class ParsedSchema(Protocol):
    """A schema of one type. Parsing it raises RegistryError (42201)."""

    normal_text: str  #: what all spellings of the same schema have in common (`normalize=true`)
    resolved_text: str  #: the normal text, with the schemas that it references

    @property
    def text(self) -> str:
        """The canonical text, which is what the registry stores."""

    def formatted(self, form: str) -> str:
        """The text in a form that its type has, such as `resolved`. Other forms are the canonical text."""

    def equals(self, stored: ParsedSchema) -> bool:
        """Whether `stored`, of the same type, is this schema, although another registry may have written its text differently."""

    def differences(self, writer: ParsedSchema) -> list[str]:
        """Why a reader with this schema cannot read what `writer`, of the same type, wrote; empty if it can.

        `%(reader)s` and `%(writer)s` in a text stand for "new" and "old", or the other way round.
        """


class SchemaParser(Protocol):
    """Parses the schemas of one type."""

    def __call__(self, text: str, references: Sequence[ReferencedSchema], *, is_new: bool) -> ParsedSchema:
        """Parse a text. `is_new`: also check what older registries let pass. Raises RegistryError (42201)."""
