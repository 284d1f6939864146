"""CRC-32C (Castagnoli) from the `crc32c` package, without importing the package module.

`import crc32c` reads its own version through importlib.metadata, which costs 40 ms of the 400 that a cold start may take;
the extension module inside it loads in one. If the package has another layout, the plain import is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Checksum(Protocol):
    """The function of the package."""

    def __call__(self, data: Buffer, checksum: int = 0, /) -> int:
        """Return the checksum of `data`, continuing from `checksum`."""


def _load_extension() -> ModuleType | None:
    """Load `crc32c._crc32c` without running `crc32c/__init__.py`; None if it cannot be found."""
    package = PathFinder.find_spec("crc32c")
    if package is None or not package.submodule_search_locations:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = spec.loader.create_module(spec)
    if module is not None:
        spec.loader.exec_module(module)
    return module


def _choose() -> Checksum:
    module = sys.modules.get("crc32c") or _load_extension()
    if module is None:  # another layout of the package: the slow way
        module = import_module("crc32c")
    return cast("Checksum", module.crc32c)


#: crc32c(data) -> the checksum of all of `data`, unsigned; crc32c(rest, crc32c(data)) continues
crc32c: Checksum = _choose()
