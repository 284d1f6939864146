"""A topic between its checks and its place in the metadata log: those of one request are written together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minibroker.cluster.metadata_image import MetadataImage
from minibroker.cluster.topic import Topic


class NewTopic(NamedTuple):
    """Everything about it is right, and whoever counts partitions has been told."""

    name: str
    records: Sequence[Any]  #: of the metadata log: they are written as one batch
    replication_factor: int  #: -1: the default
    assignment: Sequence[Sequence[int]] | None  #: replicas of each partition, where somebody said so

    def draft(self) -> Topic:
        """The topic as it will be: with its partition count but no log, and nobody else knows it."""
        image = MetadataImage()
        for record in self.records:
            image.apply(record)
        return image.topics[self.name]
