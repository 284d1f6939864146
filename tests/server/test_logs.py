"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from minibroker.server import logs


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root, ours, loop = logging.getLogger(), logging.getLogger("minibroker"), logging.getLogger("asyncio")
    before = root.handlers[:], root.level, ours.level, loop.level
    yield
    root.handlers[:], root.level, ours.level, loop.level = before


def written(log_format: str, level: str) -> str:
    stream = io.StringIO()
    logs.set_up(log_format, level, stream)
    logger = logging.getLogger("minibroker.test")
    logger.info("an everyday thing")
    try:
        divmod(1, 0)
    except ZeroDivisionError:
        logger.exception("a failure of %s", "ours")
    return stream.getvalue()


def test_json_lines() -> None:
    (line,) = written("json", "warning").splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("ERROR", "minibroker.test", "a failure of ours")
    assert "ZeroDivisionError" in entry["traceback"]
    assert entry["time"].endswith("Z")


def test_text() -> None:
    text = written("text", "warning")
    assert "ERROR minibroker.test: a failure of ours" in text
    assert "everyday" not in text


@pytest.mark.parametrize("log_format", logs.FORMATS)
def test_client_text_cannot_forge_log_lines(log_format: str) -> None:
    stream = io.StringIO()
    logs.set_up(log_format, "info", stream)
    logging.getLogger("minibroker.test").info("group %s", "g\n2026-11-21 ERROR all is lost\x1b[2J\u2028é")
    (line,) = stream.getvalue().splitlines() if log_format == "text" else stream.getvalue().rstrip("\n").split("\n")
    assert "g\\n2026-11-21 ERROR all is lost\\" in line
    assert "é" in line
    assert "\x1b" not in line


def test_levels() -> None:
    assert "INFO minibroker.test: an everyday thing" in written("text", "info")
    assert len(written("json", "info").splitlines()) == 2
