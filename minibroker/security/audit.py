"""The audit log: one line for each denied operation, in Apache Kafka's words, limited in rate.

    Principal = User:a is Denied operation = WRITE from host = 127.0.0.1 on resource = Topic:LITERAL:t for request = Produce
    with resourceRefCount = 1 based on rule DefaultDeny

Denials are INFO and allowed operations are DEBUG, on Kafka's logger `kafka.authorizer.logger`. DEBUG counts when the broker starts; later
it takes effect when an access control entry changes, because allowed operations are remembered. Of the denials of one principal on one
resource, one line is written in INTERVAL_MS, and of one principal LINES_MAX lines, so that a flood of requests does not fill the disk.
At the end of the interval, one more line for each principal counts those that were left out. Names come from clients, so control characters
are escaped and long names are cut.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from minibroker.clock import Clock
from minibroker.security.acl import Operation, ResourceType
from minibroker.security.authorizer import Decision

INTERVAL_MS: Final = 10_000
LINES_MAX: Final = 50  #: of one principal in an interval
PRINCIPALS_MAX: Final = 1_000  #: that have a line in an interval; the others are counted together
_SHOWN_LETTERS: Final = 300

_LOG: Final = logging.getLogger("kafka.authorizer.logger")

#: SecurityUtils.resourceTypeName
_TYPE_NAMES: Final = {kind: "".join(word.capitalize() for word in kind.name.split("_")) for kind in ResourceType}


class AuditEntry(NamedTuple):
    """The operation of a client, and the decision of the authorizer."""

    principal: str
    host: str
    operation: Operation
    kind: ResourceType
    name: str
    decision: Decision
    request: str  #: name of the API
    references: int  #: how often the request names the resource

    def __str__(self) -> str:
        """Format the entry as Kafka does (StandardAuthorizerData.buildAuditMessage)."""
        outcome = "Allowed" if self.decision.is_allowed else "Denied"
        return (
            f"Principal = {shown(self.principal)} is {outcome} operation = {self.operation.name} from host = {self.host} on resource ="
            f" {_TYPE_NAMES[self.kind]}:LITERAL:{shown(self.name)} for request = {self.request} with resourceRefCount = {self.references}"
            f" based on rule {shown(str(self.decision), 1000)}"
        )


class AuditLog:
    """The denials of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[str, set[tuple[ResourceType, str, Operation]]] = {}  #: by principal, in this interval
        self._left_out: dict[str, int] = {}
        self._is_due = False

    @property
    def has_allowed(self) -> bool:
        """Whether allowed operations are written as well."""
        return _LOG.isEnabledFor(logging.DEBUG)

    def allowed(self, entry: AuditEntry) -> None:
        """Write an allowed operation."""
        _LOG.debug("%s", entry)

    def denied(self, entry: AuditEntry) -> None:
        """Write a denied operation, unless there were too many."""
        if self._may_write(entry.principal, (entry.kind, entry.name[:_SHOWN_LETTERS], entry.operation)):
            _LOG.info("%s", entry)

    def _may_write(self, principal: str, resource: tuple[ResourceType, str, Operation]) -> bool:
        if not self._is_due:
            self._is_due = True
            self._clock.call_later_ms(INTERVAL_MS, self._end_interval)
        written = self._written.get(principal)
        if written is None and len(self._written) < PRINCIPALS_MAX:
            written = self._written[principal] = set()
        if written is None or len(written) >= LINES_MAX or resource in written:
            if principal not in self._left_out and len(self._left_out) >= PRINCIPALS_MAX:
                principal = "others"
            self._left_out[principal] = self._left_out.get(principal, 0) + 1
            return False
        written.add(resource)
        return True

    def _end_interval(self) -> None:
        left_out, self._left_out = self._left_out, {}
        self._is_due = False
        self._written.clear()
        for principal, count in left_out.items():
            _LOG.info("Principal = %s: %d more denials in %d s are not listed", shown(principal), count, INTERVAL_MS // 1000)


def shown(text: str, letters_max: int = _SHOWN_LETTERS) -> str:
    """Return a text of a client for the log, with control characters escaped and cut to `letters_max`."""
    cut = text if len(text) <= letters_max else f"{text[:letters_max]}..."
    return cut if cut.isprintable() else "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
