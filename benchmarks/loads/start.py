"""Start: from exec to the first answer."""

from __future__ import annotations

import time

from peers import Peer

from loads.declaration import Figures, Load

#: Time before memory is read, as a JVM still compiles and an allocator still frees.
SETTLE_S = 2.0


def start(peer: Peer, _: float) -> Figures:
    """From exec to the first answer on a fresh directory, and the memory of a broker that has nothing to do."""
    time.sleep(SETTLE_S)
    return {"cold start ms": peer.cold_start_ms, "idle memory MB": peer.memory_mb()}


LOADS = (Load("start", start, "Start", seconds=5, quick=1.0),)
