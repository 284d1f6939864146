"""What the checkpoint of a streaming query says: which offsets each micro-batch has. Files of Spark's, only read.

offsets/N        planned: "v1", a line about the query, and a line for each source, {"flights": {"0": 23}}: where batch N ends
commits/N        batch N is done, as far as Spark knows
sources/0/0      where the first batch of the Kafka source begins: a zero byte, "v1", {"flights": {"0": 0}}
metadata         {"id": the query's}
"""

from __future__ import annotations

import json
from typing import NamedTuple

from minibroker.spark.archive.files import TableFiles
from minibroker.spark.errors import SourceError
from minibroker.spark.sources.ranges import PartitionRange

Offsets = dict[tuple[str, int], int]  #: by topic and partition


class Batch(NamedTuple):
    """A micro-batch. A partition that `start` does not know begins at 0."""

    batch_id: int
    start: Offsets
    end: Offsets

    def ranges(self) -> tuple[PartitionRange, ...]:
        """What is in it; partitions without a new offset are left out."""
        found = (PartitionRange(*key, self.start.get(key, 0), end) for key, end in sorted(self.end.items()))
        return tuple(each for each in found if each.size > 0)


class Checkpoint:
    """A checkpoint folder.

    Args:
        files: its file system.
        path: the folder, which need not be there.
        initial: where the first batch begins, for a source that does not keep it.
    """

    def __init__(self, files: TableFiles, path: str, initial: Offsets) -> None:
        self.files = files
        self.path = path
        self._initial = initial

    def latest(self) -> Batch | None:
        """The last batch that was planned; None when there is none."""
        planned = self._numbers("offsets")
        return self.batch(planned[-1]) if planned else None

    def batch(self, batch_id: int) -> Batch:
        """One that was planned lately; SourceError when the checkpoint does not know it."""
        start = self._offsets(batch_id - 1) if batch_id else self.first()
        return Batch(batch_id, start, self._offsets(batch_id))

    def is_committed(self, batch_id: int) -> bool:
        """Whether Spark will not ask for it again."""
        return batch_id in self._numbers("commits")

    def query_id(self) -> str:
        """The query's, which stays through its restarts; "" while there is none."""
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
        """Where the first batch begins; a partition that is not there began at 0."""
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
        return SourceError(f"{self.path}/{name} is not what Spark writes into a checkpoint: it is damaged, or another Spark's")
