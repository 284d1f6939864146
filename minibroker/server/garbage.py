"""Run the garbage collector of a serving process rarely and never for long, since it stops every client.

Usual requests leave no garbage cycles (tests/dispatch/test_garbage.py), so the collector only has to find unusual ones. It looks at few
objects at a time, and never at those that the start creates. It looks twice at objects that stay: at 1,000 new ones for 0.1 ms, then at
5,000 for 1 ms. A third look, at all objects, comes after ten million. (Python's default thresholds stop a broker of 5,000 partitions for
100 ms.)

    starting      put_off()    imported modules and opened logs stay: there is nothing to find
    serving       settle()     objects that exist now are never looked at again
"""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (1_000, 5, 2_000)  #: new containers until a first look; first looks until a second, second ones until a third


def put_off() -> None:
    """Disable the collector until `settle`."""
    gc.disable()


def settle() -> None:
    """Enable the collector for objects that are created from now on."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
