"""One thing that was looked at."""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "ok"  #: as it should be
NOTE: Final = "note"  #: worth knowing
WARNING: Final = "warning"  #: works now, and not always
PROBLEM: Final = "problem"  #: does not work


class Finding(NamedTuple):
    """What was found, and what to do about it."""

    severity: str  #: OK, NOTE, WARNING or PROBLEM
    subject: str  #: an address, a broker, a topic
    text: str  #: one sentence
    advice: str = ""  #: one sentence or two; empty where nothing is to be done
