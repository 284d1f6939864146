"""Levels of the broker's loggers, as DescribeConfigs and IncrementalAlterConfigs of the resource BROKER_LOGGER show and change them.

A logger is a Python logger of this process: `root`, `minibroker`, a package, a module such as `minibroker.server.connection`, a library's.
Levels have Kafka's names. A change holds until the broker stops; nothing is stored, as in Apache Kafka (RuntimeLoggerManager).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from minibroker.errors import InvalidConfig, InvalidRequest

ROOT: Final = "root"
TRACE: Final = 5  #: below what anything here logs
#: Kafka's name -> Python's level
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
#: rooms that are imported when they are first needed: their levels can be set before
LAZY_ROOMS: Final = tuple(f"minibroker.coordinator.{room}" for room in ("group", "share_partition", "share_state", "transaction"))
_SET, _DELETE, _APPEND = 0, 1, 2
_OPERATIONS: Final = ("SET", "DELETE", "APPEND", "SUBTRACT")

_LOG = logging.getLogger(__name__)


def levels() -> dict[str, str]:
    """Of every logger the level from which it logs, its own or that of the nearest above it that has one; by name, root first."""
    for room in LAZY_ROOMS:
        logging.getLogger(room)
    names = sorted(logging.root.manager.loggerDict)
    return {ROOT: _name_of(logging.root.level)} | {name: _name_of(logging.getLogger(name).getEffectiveLevel()) for name in names}


def change_levels(changes: Iterable[tuple[str, int, str | None]], *, validate_only: bool) -> None:
    """Set levels, or take them away so that the logger above decides: all of (logger, operation, level), or none and what is wrong.

    Raises:
        InvalidConfig: no such logger or level.
        InvalidRequest: the operation is none for loggers, or would leave root without a level.
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
    """The name of a level; of one that has none, the nearest above it."""
    return next((name for name, value in LEVELS.items() if level <= value), "FATAL")
