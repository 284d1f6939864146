"""When the garbage collector of a serving process runs: almost never, and never for long, since it stops every client.

What a broker usually does leaves nothing to it (tests/dispatch/test_garbage.py), so it only has to find what is unusual: it looks at few
objects at a time, and passes over all that a start makes. Objects that stay are looked at twice: 1,000 new ones take 0.1 ms, the second
look at 5,000 takes 1 ms; a third one, at all there are, comes with ten million. (Python's own thresholds stop a broker of 5,000
partitions for 100 ms.)

    starting      put_off()    what is imported and opened stays: nothing to find
    serving       settle()     what was made until now is never looked at again
"""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (1_000, 5, 2_000)  #: new containers until a first look; first looks until a second, second ones until a third


def put_off() -> None:
    """No collection until `settle`."""
    gc.disable()


def settle() -> None:
    """Collect from now on, but nothing that is there already."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
