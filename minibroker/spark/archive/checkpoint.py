"""Read the checkpoint of a streaming query: the offsets of each micro-batch. Spark writes these files.

offsets/N        planned: "v1", a line about the query, and a line per source, {"flights": {"0": 23}}: the end of batch N
commits/N        batch N is done
sources/0/0      the start of the first batch of the Kafka source: a zero byte, "v1", {"flights": {"0": 0}}
metadata         {"id": the query's id}
"""

from __future__ import annotations

import json
from typing import NamedTuple

from minibroker.spark.archive.files import TableFiles
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange

Offsets = dict[tuple[str, int], int]  #: by topic and partition


class Batch(NamedTuple):
    """A micro-batch. A partition that is not in `start` starts at 0."""

    batch_id: int
    start: Offsets
    end: Offsets

    def ranges(self) -> tuple[PartitionRange, ...]:
        """Return the ranges of the batch, without empty ones."""
        found = (PartitionRange(*key, self.start.get(key, 0), end) for key, end in sorted(self.end.items()))
        return tuple(each for each in found if each.size > 0)


class Checkpoint:
    """A checkpoint folder.

    Args:
        files: its file system.
        path: the folder, which may be missing.
        initial: the start of the first batch, for a source that does not store it.
    """

    def __init__(self, files: TableFiles, path: str, initial: Offsets) -> None:
        self.files = files
        self.path = path
        self._initial = initial

    def latest(self) -> Batch | None:
        """Return the last planned batch; None if there is none."""
        planned = self._numbers("offsets")
        return self.batch(planned[-1]) if planned else None

    def batch(self, batch_id: int) -> Batch:
        """Return a recently planned batch; SourceError if the checkpoint is damaged."""
        start = self._offsets(batch_id - 1) if batch_id else self.first()
        return Batch(batch_id, start, self._offsets(batch_id))

    def is_committed(self, batch_id: int) -> bool:
        """Return whether Spark knows that the batch is done, and will not ask for it again."""
        return batch_id in self._numbers("commits")

    def query_id(self) -> str:
        """Return the query's id, which stays the same after restarts; "" if there is none yet."""
        try:
            found = json.loads(self.files.read(f"{self.path}/metadata"))["id"]
        except FileNotFoundError:
            return ""
        except (ValueError, KeyError, TypeError):
            raise self._damaged("metadata") from None
        return str(found)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self.files.names(f"{self.path}/{folder}") if name.isascii() and name.isdigit())

    def _offsets(self, batch_id: int) -> Offsets:
        return self._parsed(f"offsets/{batch_id}", line=2)

    def first(self) -> Offsets:
        """Return the start of the first batch; a partition that is missing started at 0."""
        try:
            return self._parsed("sources/0/0", line=1)
        except FileNotFoundError:
            return self._initial

    def _parsed(self, name: str, *, line: int) -> Offsets:
        lines = self.files.read(f"{self.path}/{name}").decode(errors="replace").lstrip("\0").splitlines()
        try:
            if lines[0] != "v1":
                raise self._damaged(name)
            given = json.loads(lines[line])
            return {(topic, int(partition)): int(offset) for topic, partitions in given.items() for partition, offset in partitions.items()}
        except (IndexError, ValueError, AttributeError, TypeError):
            raise self._damaged(name) from None

    def _damaged(self, name: str) -> SourceError:
        return SourceError(f"{self.path}/{name} is not a file of a checkpoint: it is damaged, or another version of Spark wrote it")
