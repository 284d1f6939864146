"""The words of a schema's text: a quick way to see that two texts are not spellings of the same schema.

A registration compares its schema with every version of the subject. Parsing all of them after each
start would take long, for Protobuf a process each. Spellings of one schema have the same words:

    Avro, JSON Schema   names, values and attributes, without attributes that may be left out
    Protobuf            names and keywords, without comments and options
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[^\W\d]\w*")
_LEFT_OUT: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r"|\[[^\[\]]*\]|\boption\b[^;{}]*;",  # options
    re.DOTALL,
)
_OPTIONAL: Final = frozenset({"namespace", "type", "order", "ascending", "syntax", "proto2"})
_KNOWN_MAX: Final = 16_384  #: texts whose words are remembered; an entry is a number


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
