"""What a log does when the file system fails, and what it says while it is offline.

The caller gets KafkaStorageError (its `__cause__` is the OSError) and `on_storage_error` is told, once a failure: who owns the log
directory decides what that means for its other logs. After a failed fsync, or a failed write that could not be cut off again, nobody
knows what the file holds: the log is offline, `offline_cause` says why, and every call raises KafkaStorageError until it is opened anew.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minibroker.errors import KafkaStorageError
from minibroker.storage.log_file_names import parse_folder_name

logger = logging.getLogger(__name__)


class LogFailures:
    """A log by its folder, and whether it may be used. Invariant: a closed log has an `offline_cause` too."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.name = os.path.basename(directory)  # noqa: PTH119  paths are strings in the storage
        self.topic, self.partition = parse_folder_name(self.name)
        self.is_closed = False
        self.offline_cause: OSError | None = None
        self.on_storage_error: Callable[[Any, OSError], None] | None = None  #: called with the log itself

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """What every call does about an offline log and a failing file system; the hot ones do it by hand."""
        if self.offline_cause is not None:
            raise self._offline_error()
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError, *, is_fatal: bool = False) -> KafkaStorageError:
        logger.error("%s: %s%s", self.directory, error, "; the partition is offline" if is_fatal else "")
        if is_fatal and self.offline_cause is None:
            self.offline_cause = error
        if self.on_storage_error is not None:
            self.on_storage_error(self, error)
        return KafkaStorageError(f"{self.name}: {error}")

    def _offline_error(self) -> KafkaStorageError:
        return KafkaStorageError(f"{self.name} is offline: {self.offline_cause}")
