"""One test for many small cases, which reports every case that fails: a test for each case would cost more than what it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def failing(cases: Iterable[T], check: Callable[[T], object], name: Callable[[T], str] = str) -> dict[str, str]:
    """Return the name and the error of each case for which `check` raises. A test compares the result with {}."""
    found = {}
    for case in cases:
        try:
            check(case)
        except Exception as error:  # noqa: BLE001  every kind of failure is reported, and the other cases still run
            found[name(case)] = repr(error)
    return found
