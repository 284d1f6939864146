"""How a log reacts to a failing file system, and the error of its calls while it is offline.

The caller gets KafkaStorageError (its `__cause__` is the OSError), and `on_storage_error` is called
once for each failure: the owner of the log directory decides whether its other logs go offline as
well. After a failed fsync, or a failed write that could not be cut off again, the contents of the
file are unknown. The log is then offline: `offline_cause` has the error, and every call raises
KafkaStorageError until the log is opened again.

In a broker, DISK_ERRORS such as a full disk take the whole log directory offline, even where this
log could continue (`LogDirectory.must_go_offline_after`).
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minibroker.errors import KafkaStorageError

logger = logging.getLogger(__name__)


class LogFailures:
    """Whether a log may be used. Invariant: a closed log has an `offline_cause` as well."""

    __slots__ = ("directory", "is_closed", "offline_cause", "on_storage_error")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.is_closed = False
        self.offline_cause: OSError | None = None
        self.on_storage_error: Callable[[LogFailures, OSError], None] | None = None

    @property
    def _name(self) -> str:
        return os.path.basename(self.directory)  # noqa: PTH119  paths are strings in the storage

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise KafkaStorageError if the log is offline or the file system fails. Append and read do the same without a context manager."""
        if self.offline_cause is not None:
            raise self.offline_error()
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: OSError, *, is_fatal: bool = False) -> KafkaStorageError:
        """Log `error`, report it to `on_storage_error`, and return the error to raise. `is_fatal` takes the log offline."""
        logger.error("%s: %s%s", self.directory, error, "; the partition is offline" if is_fatal else "")
        if is_fatal and self.offline_cause is None:
            self.offline_cause = error
        if self.on_storage_error is not None:
            self.on_storage_error(self, error)
        return storage_error(self._name, error)

    def offline_error(self) -> KafkaStorageError:
        """The error of each call while the log is offline."""
        return KafkaStorageError(f"{self._name} is offline: {self.offline_cause}")

    def note_closed(self, state: str) -> None:
        """Mark the log as closed. `state` is closed or deleted; each further call raises KafkaStorageError."""
        self.is_closed = True
        if self.offline_cause is None:
            self.offline_cause = OSError(errno.EBADF, f"{self._name} is {state}")


def storage_error(name: str, error: OSError) -> KafkaStorageError:
    """Return the error to raise for a failed system call. It has its cause already: mypyc ignores the `from` of a raise."""
    failure = KafkaStorageError(f"{name}: {error}")
    failure.__cause__ = error
    return failure
