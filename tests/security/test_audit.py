"""The audit log: Kafka's lines, limited in rate, without control characters."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from minibroker.security.audit import INTERVAL_MS, LINES_MAX, PRINCIPALS_MAX, AuditLog
from tests.dispatch.authorization.test_enforcement import broker, produce

DENIED = (
    "Principal = User:alice is Denied operation = WRITE from host = 127.0.0.1 on resource = Topic:LITERAL:secret for request = Produce"
    " with resourceRefCount = 1 based on rule "
)


class Lines(logging.Handler):
    """What the audit log writes."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def log() -> Iterator[Lines]:
    logger, handler = logging.getLogger("kafka.authorizer.logger"), Lines()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_a_denial_is_kafkas_line(log: Lines) -> None:
    broker().ask(produce(1, "secret"), 9)
    assert log.lines == [DENIED + "DefaultDeny"]


def test_a_denial_by_an_entry_names_it(log: Lines) -> None:
    broker("alice DENY WRITE TOPIC secret").ask(produce(1, "secret"), 9)
    (line,) = log.lines
    assert line == DENIED + (
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=secret, patternType=LITERAL, principal=User:alice, host=*,"
        " operation=WRITE, permissionType=DENY])"
    )


def test_allowed_operations_are_for_debugging(log: Lines) -> None:
    broker("alice WRITE TOPIC orders").ask(produce(1, "orders"), 9)
    assert log.lines == []
    logging.getLogger("kafka.authorizer.logger").setLevel(logging.DEBUG)
    made = broker("alice WRITE TOPIC orders")
    for _ in range(3):
        made.ask(produce(1, "orders"), 9)
    assert len(set(log.lines)) == 1
    line = log.lines[2]
    assert line.startswith("Principal = User:alice is Allowed operation = WRITE from host = 127.0.0.1 on resource = Topic:LITERAL:orders")


def test_the_same_denial_is_one_line_in_an_interval(log: Lines) -> None:
    made = broker()
    for _ in range(100):
        made.ask(produce(1, "secret"), 9)
    assert len(log.lines) == 1
    made.clock.advance(INTERVAL_MS)
    assert log.lines[1:] == ["Principal = User:alice: 99 more denials in 10 s are not listed"]
    made.ask(produce(1, "secret"), 9)
    assert len(log.lines) == 3


def test_many_names_do_not_fill_the_log(log: Lines) -> None:
    made = broker()
    for number in range(1000):
        made.ask(produce(1, f"t{number}"), 9)
    assert len(log.lines) == LINES_MAX
    made.clock.advance(INTERVAL_MS)
    assert log.lines[-1] == f"Principal = User:alice: {1000 - LINES_MAX} more denials in 10 s are not listed"


def test_many_principals_do_not_fill_memory_or_log(log: Lines) -> None:
    made = broker()
    audit = made.services.audit
    assert isinstance(audit, AuditLog)
    for number in range(PRINCIPALS_MAX + 100):
        made.connection.principal = f"User:u{number}"
        made.ask(produce(1, "secret"), 9)
    assert len(log.lines) == PRINCIPALS_MAX
    assert len(audit._written) <= PRINCIPALS_MAX
    made.clock.advance(INTERVAL_MS)
    assert len(audit._written) == len(audit._left_out) == 0


def test_names_are_escaped_and_cut(log: Lines) -> None:
    made = broker()
    made.connection.principal = "User:eve\nPrincipal = User:admin"
    made.ask(produce(1, "a\r\nb\x1b[31m"), 9)
    made.ask(produce(1, "x" * 5000), 9)
    first, second = log.lines
    assert first.isprintable()
    assert "User:eve\\nPrincipal" in first
    assert "a\\r\\nb\\x1b[31m" in first
    assert len(second) < 600
