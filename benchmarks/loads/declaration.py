"""The definition of a load, so that one runner, one report and one picture serve all of them.

A figure of a growth curve has its place after ` @ `: `CPU us/request @ 100 partitions`. The table of figures is in figures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from peers import Need, Peer

#: Name of a figure, with its unit, to its value.
Figures = dict[str, float]
#: (broker, scale) -> figures; raises LoadError. At scale 1 it takes at most about ten seconds beside its warming up.
Run = Callable[[Peer, float], Figures]

#: Suffix of the name of a load that runs with an fsync before each acknowledgement in every broker.
SYNCED = ", synced"
#: The broker's setting for it.
SYNCED_PROPERTIES = {"log.flush.interval.messages": "1"}
#: Between what a figure of a curve measures and its place on the axis: a number, maybe with thousands separators, and what it counts.
AT = " @ "


@dataclass(frozen=True)
class Load:
    """A measurement on a broker that was started for it alone, on a fresh directory."""

    name: str  #: as it stands in tables; those of one theme begin alike
    run: Run  #: the first line of its docstring describes it
    theme: str  #: heading of its part of the report
    seconds: float = 15.0  #: of one round against one broker at scale 1, its start included; a guess that the first round replaces
    quick: float = 0.0  #: its scale in the quick run; 0: not part of that
    properties: Mapping[str, str] = field(default_factory=dict)  #: settings of the brokers by Kafka's names, on top of the defaults
    needs: frozenset[Need] = frozenset()  #: a broker without all of these is left out

    @property
    def is_synced(self) -> bool:
        """Whether it belongs to the second table, with an fsync before each acknowledgement."""
        return self.name.endswith(SYNCED)

    @property
    def summary(self) -> str:
        """One line that describes the load."""
        return (getattr(self.run, "func", self.run).__doc__ or "").strip().split("\n")[0]


def curve(figure: str, count: float, axis: str) -> str:
    """The name of one point: `CPU us/request @ 1,000 partitions`."""
    return f"{figure}{AT}{count:,.0f} {axis}"
