"""The checks of `minibroker doctor`: it connects as any client would from where it runs, and gives advice.

reach.py       one address: is the name known, does a process listen, is it Kafka, and which cluster
advertised.py  an address that a broker advertises, and what to set if it cannot work from here
checks.py      the state of brokers: versions, log directories, partitions, internal topics
checkup.py     all checks, in the order of a client's connection

Invariant: nothing is changed, no topic is created, and each failure is a finding, never an exception.
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
