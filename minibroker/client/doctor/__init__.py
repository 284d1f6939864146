"""The checks of `minibroker doctor`: it connects as any client would from where it runs, and gives advice.

addresses.py  whether clients reach a bootstrap or advertised address, and what to set if not
checks.py     the state of brokers: versions, log directories, partitions, internal topics
checkup.py    all checks, in the order of a client's connection

Invariants: the checks change nothing and create no topic. A failure is a finding, not an exception.
"""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "ok"  #: as it should be
NOTE: Final = "note"  #: worth knowing
WARNING: Final = "warning"  #: works now, but may fail later
PROBLEM: Final = "problem"  #: does not work


class Finding(NamedTuple):
    """The result of one check, and what to do about it."""

    severity: str  #: OK, NOTE, WARNING or PROBLEM
    subject: str  #: an address, a broker, a topic
    text: str  #: one sentence
    advice: str = ""  #: one or two sentences; empty if there is nothing to do
