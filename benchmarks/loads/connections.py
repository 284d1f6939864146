"""Connections: what they cost while nobody speaks."""

from __future__ import annotations

import contextlib

import frames
from peers import Peer
from pump import call, connect

from loads.declaration import Figures, Load


def idle_connections(peer: Peer, _: float) -> Figures:
    """Memory that 1,000 connections add, each of which has asked for ApiVersions and then is silent."""
    before = peer.memory_mb()
    with contextlib.ExitStack() as held:
        for _number in range(1000):
            connection = held.enter_context(contextlib.closing(connect(peer.address)))
            call(connection, frames.frame(18, 0, b""))
        return {"MB for 1,000 connections": peer.memory_mb() - before}


LOADS = (Load("idle connections", idle_connections, "Connections", quick=0.2),)
