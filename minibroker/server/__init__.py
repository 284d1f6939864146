"""Sockets and the event loop. Below this package, no code imports asyncio."""
