"""Who is to be told when something moves.

A dict, so that asking whether there is anybody costs an append nothing.
"""

from __future__ import annotations

from collections.abc import Callable


class Subscribers(dict[object, Callable[[], None]]):
    """Callbacks by their subscription, in the order in which they came."""

    __slots__ = ()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at each `wake`; returns what ends it (harmless twice)."""
        subscription = object()
        self[subscription] = callback

        def cancel() -> None:
            self.pop(subscription, None)

        return cancel

    def wake(self) -> None:
        """Call everybody who is there now; a callback may cancel others, and itself."""
        for callback in list(self.values()):
            callback()
