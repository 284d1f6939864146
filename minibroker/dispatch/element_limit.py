"""The most elements that a request may have where its handler sees them all together.

    @handles(schema, limit=ElementLimit(FEATURE_UPDATES_MAX))
    def update_features(ctx, request): ...

All arrays count, at every level. Only a frame of more than that many bytes can have so many elements, so no smaller one is counted.
The limits: minibroker/config/request_limits.py.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from minibroker.errors import InvalidRequest, KafkaError
from minibroker.wire.schema import fields_of


class ElementLimit(NamedTuple):
    """How many elements a request may have."""

    most: int

    def refusal(self, request: Any) -> KafkaError | None:
        """Return the error that refuses a request of more elements; None if it may be served."""
        if count_elements(request, self.most) <= self.most:
            return None
        return InvalidRequest(f"A request may have {self.most} elements at most.")


def count_elements(struct: Any, most: int) -> int:
    """Count the elements of all arrays in a struct; stop soon after `most` of them."""
    total = 0
    for name, is_array, has_structs in _containers(type(struct)):
        value = getattr(struct, name)
        if value is None:
            continue
        if is_array:
            total += len(value)
        if has_structs:
            for each in value if is_array else (value,):
                if total > most:
                    return total
                total += count_elements(each, most - total)
    return total


def _containers(struct_type: type[Any]) -> list[tuple[str, bool, bool]]:
    """The fields that may contain elements: name, whether it is an array, whether it has structs with containers of their own."""
    found = _CONTAINERS.get(struct_type)
    if found is None:
        found = _CONTAINERS[struct_type] = []
        for field in fields_of(struct_type):
            has_structs = field.struct is not None and bool(_containers(field.struct))
            if field.is_array or has_structs:
                found.append((field.name, field.is_array, has_structs))
    return found


_CONTAINERS: Final[dict[type[Any], list[tuple[str, bool, bool]]]] = {}
