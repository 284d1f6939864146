"""Levels of the broker's loggers, which DescribeConfigs and IncrementalAlterConfigs read and change as the resource BROKER_LOGGER.

A logger is a Python logger of this process: `root`, `minibroker`, a package, a module such as `minibroker.server.connection`, a library's.
Levels have Kafka's names. A change lasts until the broker stops and is not stored, as in Apache Kafka (RuntimeLoggerManager).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from minibroker.errors import InvalidConfig, InvalidRequest

ROOT: Final = "root"
TRACE: Final = 5  #: below all levels that minibroker logs at
#: Kafka's name -> Python's level
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
#: packages that are imported at first use; clients can set their levels before
LAZY_PACKAGES: Final = tuple(f"minibroker.coordinator.{package}" for package in ("group", "share_partition", "share_state", "transaction"))
_SET, _DELETE, _APPEND = 0, 1, 2
_OPERATIONS: Final = ("SET", "DELETE", "APPEND", "SUBTRACT")

_LOG = logging.getLogger(__name__)


def levels() -> dict[str, str]:
    """Return the effective level of each logger, by name, root first."""
    for package in LAZY_PACKAGES:
        logging.getLogger(package)
    names = sorted(logging.root.manager.loggerDict)
    return {ROOT: _name_of(logging.root.level)} | {name: _name_of(logging.getLogger(name).getEffectiveLevel()) for name in names}


def change_levels(changes: Iterable[tuple[str, int, str | None]], *, validate_only: bool) -> None:
    """Set levels, or unset them so that the parent's level applies. Apply all of (logger, operation, level), or none.

    Raises:
        InvalidConfig: There is no such logger or level.
        InvalidRequest: The operation is not one for loggers, or would unset root's level.
    """
    changes = list(changes)
    known = levels()
    for name, operation, level in changes:
        _check(known, name, operation, level)
    if validate_only:
        return
    for name, operation, level in changes:
        logger = logging.root if name == ROOT else logging.getLogger(name)
        if operation == _SET:
            logger.setLevel(LEVELS[level or ""])
            _LOG.warning("Updated the log level of %s to %s", name, level)
        else:
            logger.setLevel(logging.NOTSET)
            _LOG.warning("Unset the log level of %s", name)


def _check(known: Mapping[str, str], name: str, operation: int, level: str | None) -> None:
    if operation >= _APPEND or operation < 0:
        word = _OPERATIONS[operation] + " operation" if 0 <= operation < len(_OPERATIONS) else f"Unknown operation type {operation}"
        raise InvalidRequest(f"{word} is not allowed for the BROKER_LOGGER resource")
    if name not in known:
        raise InvalidConfig(f"Logger {name} does not exist!")
    if operation == _SET and level not in LEVELS:
        supported = ", ".join(sorted(LEVELS))
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are {supported}"
        )
    if operation == _DELETE and name == ROOT:
        raise InvalidRequest("Removing the log level of the root logger is not allowed")


def _name_of(level: int) -> str:
    """Return the name of a level, or of the next higher one if it has none."""
    return next((name for name, value in LEVELS.items() if level <= value), "FATAL")
