"""This package as a zip file, for executors on other machines: what runs there is what runs here, installed there or not.

What we depend on (pyarrow, zstandard, ...) is compiled, and must be installed where executors run.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import minibroker

#: zip has no time before this one; the same sources make the same file
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_zip(home: Path) -> Path:
    """Write `home/packages/minibroker-HASH.zip`, unless it is there, and return its path."""
    root = Path(minibroker.__file__).parent
    contents = {f"minibroker/{path.relative_to(root).as_posix()}": path.read_bytes() for path in sorted(root.rglob("*.py"))}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    target = home / "packages" / f"minibroker-{digest.hexdigest()[:16]}.zip"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    partial.replace(target)
    return target
