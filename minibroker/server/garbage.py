"""Run the garbage collector of a serving process rarely and never for long, since it stops every client.

Usual requests leave no garbage cycles (tests/dispatch/test_garbage.py), so the collector only has to find unusual ones. It checks few
objects at a time, and never those that the start creates. It checks surviving objects twice: 1,000 new ones in 0.1 ms, then 5,000 in
1 ms. A third check, of all objects, follows after ten million. (Python's default thresholds stop a broker of 5,000 partitions for
100 ms.)

    starting      put_off()    imported modules and opened logs stay, so there is nothing to collect
    serving       settle()     objects that exist now are never checked again
"""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (1_000, 5, 2_000)  #: new containers until a first check; first checks until a second one, second checks until a third


def put_off() -> None:
    """Disable the collector until `settle`."""
    gc.disable()


def settle() -> None:
    """Enable the collector for objects that are created from now on."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
