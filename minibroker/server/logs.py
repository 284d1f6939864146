"""Configure the standard `logging` of a broker: on stderr, as text or as one JSON object per line, from WARNING on by default.

    text    2026-11-21 09:27:04,123 WARNING minibroker.server.connection: closing the connection of 127.0.0.1 ...
    json    {"time": "2026-11-21T09:27:04.123Z", "level": "WARNING", "logger": "minibroker.server.connection", "message": "..."}

A message is always one line. Unprintable characters, which client ids, group ids and member names may contain, are escaped as in Python.

WARNING and above is what an operator must know. INFO reports what the broker does, DEBUG also what clients do.
Operations that an authorizer denied are logged unless the level is `error`.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Final, TextIO

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
AUDIT_LOGGER: Final = "kafka.authorizer.logger"  #: of minibroker.security.audit


class TextFormatter(logging.Formatter):
    """Formats a message as one line, followed by its traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  as logging calls it
        """Return the line without the traceback."""
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


class JsonFormatter(logging.Formatter):
    """Formats a message as one JSON object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time (UTC, with milliseconds), level, logger, message, and the traceback if there is one."""
        import json  # noqa: PLC0415  text logs do not need it

        entry = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up(log_format: str = "text", level: str = "warning", stream: TextIO | None = None) -> None:
    """Send the package's log records to `stream`, stderr by default, in one of FORMATS, from one of LEVELS on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("minibroker").setLevel(level.upper())
    # Denials of the authorizer are INFO, as in Kafka, and what an operator must know.
    logging.getLogger(AUDIT_LOGGER).setLevel({"debug": logging.DEBUG, "error": logging.ERROR}.get(level, logging.INFO))
    logging.getLogger("asyncio").setLevel(logging.ERROR)


def in_use() -> tuple[str, str]:
    """Return the format and level given to `set_up`, for child processes."""
    is_json = any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)
    return "json" if is_json else "text", logging.getLevelName(logging.getLogger("minibroker").getEffectiveLevel()).lower()
