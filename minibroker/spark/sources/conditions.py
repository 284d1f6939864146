"""Many conditions as one: a tree as deep as their number has bits.

Spark walks trees by recursion, and a few hundred conditions behind each other overflow its stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import and_, or_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one of them is true; there is one at least."""
    return _joined(or_, conditions)


def all_of(conditions: Sequence[Column]) -> Column:
    """Whether all of them are true; likewise."""
    return _joined(and_, conditions)


def _joined(join: Any, conditions: Sequence[Column]) -> Column:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    joined: Column = join(_joined(join, conditions[:middle]), _joined(join, conditions[middle:]))
    return joined
