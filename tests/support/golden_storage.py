"""Partition folders that a real Apache Kafka wrote and closed: see tests/golden/captures/storage.py, captures/transactional_logs.py."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden"


@functools.cache
def _golden() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / "storage_kafka_4.3.1.json").read_text())
    loaded["folders"] |= json.loads((GOLDEN / "transactional_logs_kafka_4.3.1.json").read_text())["folders"]
    return loaded


def golden_folder(name: str) -> dict[str, bytes]:
    """The files of one partition's folder."""
    return {file: bytes.fromhex(data) for file, data in _golden()["folders"][name].items()}


def golden_log_dir_file(name: str) -> bytes:
    """A file of the log directory itself."""
    return bytes.fromhex(_golden()["log_dir"][name])


def restore_golden_folder(name: str, parent: Path) -> Path:
    """Write the folder out again."""
    folder = parent / name
    folder.mkdir()
    for file, data in golden_folder(name).items():
        (folder / file).write_bytes(data)
    return folder
