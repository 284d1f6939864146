"""What a load is, so that one runner, one report and one picture serve all of them.

A figure of a growth curve says behind ` @ ` where it stands: `CPU us/request @ 100 partitions`. The table of figures is in figures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from peers import Need, Peer

#: Name of a figure, with its unit, to its value.
Figures = dict[str, float]
#: (broker, scale) -> figures; raises LoadError. At scale 1 it takes at most about ten seconds beside its warming up.
Run = Callable[[Peer, float], Figures]

#: Behind the name of a load that runs with an fsync before each acknowledgement, on all sides.
SYNCED = ", synced"
#: What a broker is told for it.
SYNCED_PROPERTIES = {"log.flush.interval.messages": "1"}
#: Between what a figure of a curve measures and its place on the axis: a number, maybe with thousands separators, and what it counts.
AT = " @ "


@dataclass(frozen=True)
class Load:
    """What is done to a broker that was started for it alone, on a fresh directory."""

    name: str  #: as it stands in tables; those of one theme begin alike
    run: Run  #: the first line of its docstring tells what it is
    theme: str  #: heading of its part of the report
    seconds: float = 15.0  #: of one round against one broker at scale 1, its start included; a guess until the first round has told
    quick: float = 0.0  #: its scale in the run that takes minutes; 0: it is not part of that
    properties: Mapping[str, str] = field(default_factory=dict)  #: what brokers are told for it, in Kafka's names; otherwise defaults
    needs: frozenset[Need] = frozenset()  #: a broker that does not give all of it is left out

    @property
    def is_synced(self) -> bool:
        """Whether it belongs to the second table, with an fsync before each acknowledgement."""
        return self.name.endswith(SYNCED)

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (getattr(self.run, "func", self.run).__doc__ or "").strip().split("\n")[0]


def curve(figure: str, count: float, axis: str) -> str:
    """The name of one point: `CPU us/request @ 1,000 partitions`."""
    return f"{figure}{AT}{count:,.0f} {axis}"
