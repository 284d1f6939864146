"""Where a stream stopped, as its checkpoint says: Spark asks a Python source for the next batch's end before it tells it of the last one's.

CHECKPOINT/offsets/N    a line of version, one of metadata, one for each source of the query: its offsets at the end of batch N
"""

from __future__ import annotations

import json
import logging

from minibroker.spark.kafka_log.options import OptionError, ReadOptions
from minibroker.storage.files import Files, read_all

logger = logging.getLogger(__name__)

Offsets = dict[str, dict[str, int]]


def last_offsets(files: Files, location: str, options: ReadOptions) -> Offsets | None:
    """The end of the last planned batch; None when there is none yet. OptionError for a folder that executors alone could read."""
    path = location.removeprefix("file://").removeprefix("file:").rstrip("/")
    if ":" in path.partition("/")[0]:
        raise OptionError(
            f"checkpointLocation of kafka-log is {location!r}, not a local folder: without it only the first batch is not bounded"
        )
    try:
        batches = [int(name) for name in files.names(f"{path}/offsets") if name.isdecimal()]
    except FileNotFoundError:
        return None
    if not batches:
        return None
    name = f"{path}/offsets/{max(batches)}"
    lines = read_all(files, name).decode().splitlines()
    found = [offsets for line in lines[2:] if (offsets := _offsets(line, options)) is not None]
    if len(found) != 1:
        logger.warning("%s tells of %d sources like this one: the next batch is not bounded", name, len(found))
        return None
    return found[0]


def _offsets(line: str, options: ReadOptions) -> Offsets | None:
    """The offsets of a source, if they can be those of ours."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(partitions, dict) for partitions in found.values()):
        return None
    numbers = [(topic, name, number) for topic, partitions in found.items() for name, number in partitions.items()]
    if all(name.isdecimal() and isinstance(number, int) and options.wants(topic, int(name)) for topic, name, number in numbers):
        return found
    return None
