from __future__ import annotations

import subprocess
import sys


def test_codecs_are_imported_on_first_use() -> None:
    """A cold start must not pay for libraries that no batch has asked for, nor for crc32c's look at its own metadata."""
    code = "import sys, minibroker.records.validate, minibroker.records.control; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "minibroker.records.checksum" in modules
    assert not {"lz4", "lz4.frame", "zstandard", "cramjam", "importlib.metadata", "crc32c"} & {*modules}
    assert "minibroker.records.codecs.zstd" not in modules
