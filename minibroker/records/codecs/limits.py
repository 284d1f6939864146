"""What all codecs share: the limits of a compressed payload, and the errors for payloads that break them."""

from __future__ import annotations

from minibroker.errors import InvalidRecord

AT_ONCE_BYTES = 64 * 1024  #: of a payload that is given to its library in one call
AT_ONCE_CONTENT = 1024 * 1024  #: of what a small payload becomes; a larger content is decompressed in pieces
PIECE_BYTES = 256 * 1024  #: of output
INPUT_BYTES = 64 * 1024  #: of input that a library gets in one call: libraries copy what they do not consume

MIN_PARTS = 4096  #: members, frames and blocks that any payload may have
PART_BYTES = 512  #: ... and one more for each so many bytes of it


def parts_max(size: int) -> int:
    """How many members, frames and blocks a payload of `size` bytes may have."""
    return MIN_PARTS + size // PART_BYTES


def too_large(codec: str, max_bytes: int) -> InvalidRecord:
    """The error for a payload whose content is larger than its bound."""
    return InvalidRecord(f"a {codec} payload of more than {max_bytes} bytes when decompressed")


def broken(codec: str, reason: object) -> InvalidRecord:
    """The error for a payload that breaks the rules of its codec."""
    return InvalidRecord(f"a broken {codec} payload: {reason}")


def too_many_parts(codec: str, size: int) -> InvalidRecord:
    """The error for a payload of `size` bytes that consists of more than `parts_max` parts."""
    return broken(codec, f"{size} bytes in more than {parts_max(size)} parts")
