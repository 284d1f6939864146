"""Estimate how many bytes of memory a decoded message takes, from its declaration and before objects are created.

A frame of 10 MB can hold millions of tiny elements, each an object with its strings and lists. Sliced decoders (`wire/compiled.py`)
subtract the weight of an array's elements from a budget before they create them. Strings and bytes of more than SHORT bytes count
with their own size.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from minibroker.errors import WireError
from minibroker.wire.schema import Field, fields_of

SHORT: Final = 15  #: a string or bytes of at most so many bytes has the weight of its kind
REFERENCE: Final = 9  #: a place in a list, which grows by an eighth

_STRUCT: Final = 16  #: what the collector adds to an instance
_LIST: Final = sys.getsizeof([])
_OF_KIND: Final = {
    "bool": 0,
    "int8": 0,
    "float64": 24,
    "string": 64,
    "bytes": 48,
    "records": 208,  # a view
    "uuid": 144,
}
_NUMBER: Final = 32


class OverBudgetError(WireError):
    """A message has more values than its budget allows."""


def weight_of_element(field: Field, version: int) -> int:
    """Bytes that one element of the field takes, without those of its arrays' elements."""
    return _OF_KIND.get(field.kind, _NUMBER) if field.struct is None else weight_of(field.struct, version)


def weight_of(struct_type: type[Any], version: int) -> int:
    """Bytes that an instance takes with its fields, without those of its arrays' elements."""
    weight: int = struct_type.__basicsize__ + _STRUCT
    for field in fields_of(struct_type):
        if field.is_array:
            weight += _LIST
        elif field.tag is None and field.in_version(version):
            weight += weight_of_element(field, version)
    return weight
