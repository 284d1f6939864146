"""`.kafka_cleanshutdown`: written last when a broker stops, removed first when it starts; JSON in one line.

    {"version":0,"brokerEpoch":13}

If it exists, every log of the directory is complete and its indexes are trimmed. Source: CleanShutdownFileHandler of Apache Kafka.
"""

from __future__ import annotations

import os.path

from minibroker.storage.files import Files, replace_file

NAME = ".kafka_cleanshutdown"


def mark_clean_shutdown(files: Files, path: str, *, broker_epoch: int) -> None:
    """Write the marker and sync it and its folder."""
    replace_file(files, path, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode(), sync=True)


def take_clean_shutdown(files: Files, path: str) -> bool:
    """Remove the marker and return whether it existed. The removal is synced, so that a later crash is recognised."""
    if not files.exists(path):
        return False
    files.remove(path)
    files.sync_directory(os.path.dirname(path))  # noqa: PTH120  a marker that a power loss brings back would hide that loss
    return True
