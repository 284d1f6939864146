"""`minibroker-replicas.json` in the first log directory: on which brokers topics were put, where that does not follow from their names.

    {"version": 1, "topics": {"<topic id>": [[1, 2], [2, 3]]}}        replicas of each partition, the preferred leader first

It is there only where several brokers are shown (several_nodes.py), and tells nothing about data: all of them are one broker's, as the
metadata log says. Apache Kafka passes over the file, and so does minibroker alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from minibroker.storage.files import Files, read_all, replace_file

NAME: Final = "minibroker-replicas.json"
_VERSION: Final = 1
_LOG = logging.getLogger(__name__)

Assignment = list[list[int]]  #: replicas of each partition


class ReplicaAssignments:
    """The file, and what it says; topics that are not in it are where their names put them."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{NAME}"
        self._of: dict[UUID, Assignment] = self._read()

    def get(self, topic_id: UUID) -> Assignment | None:
        """What was written of a topic."""
        return self._of.get(topic_id)

    def put(self, topic_id: UUID, assignment: Sequence[Sequence[int]]) -> None:
        """Write down where a topic is."""
        self._of[topic_id] = [list(replicas) for replicas in assignment]
        self._write()

    def remove(self, topic_ids: Sequence[UUID]) -> None:
        """These topics are gone."""
        known = [self._of.pop(topic_id, None) for topic_id in topic_ids]
        if any(each is not None for each in known):
            self._write()

    def _read(self) -> dict[UUID, Assignment]:
        try:
            found = json.loads(read_all(self._files, self._path))
            return {UUID(topic_id): [list(map(int, each)) for each in replicas] for topic_id, replicas in found["topics"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _LOG.warning("%s cannot be read, replicas are spread anew: %s", self._path, error)
            return {}

    def _write(self) -> None:
        said = {"version": _VERSION, "topics": {str(topic_id): replicas for topic_id, replicas in self._of.items()}}
        try:
            replace_file(self._files, self._path, json.dumps(said).encode(), sync=False)
        except OSError as error:
            _LOG.warning("%s cannot be written, a restart will spread replicas anew: %s", self._path, error)
