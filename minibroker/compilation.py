"""What the compiled build needs: how to declare its classes, and how to recognise it.

`MINIBROKER_COMPILE=1 pip wheel .` compiles the modules that pyproject.toml lists with mypyc (hatch_build.py). Their source is the same
in both builds; docs/performance.md says what it must not do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414  exported; mypyc finds it by this name
else:
    T = TypeVar("T")

    def mypyc_attr(*_attributes: str, **_values: Any) -> Callable[[T], T]:
        """Tell mypyc how to compile a class; at run time it does nothing."""
        return lambda decorated: decorated


def is_compiled() -> bool:
    """Whether this is a compiled build."""
    from importlib.util import find_spec  # noqa: PLC0415  only for `--version`, reports and tests

    found = find_spec("minibroker.records.walk")
    return found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))


def build() -> str:
    """Name the build and its interpreter, such as `compiled, CPython 3.14.0`."""
    name = sys.implementation.name.replace("cpython", "CPython")  # `platform` takes milliseconds to import
    return f"{'compiled' if is_compiled() else 'pure Python'}, {name} {sys.version.split()[0]}"
