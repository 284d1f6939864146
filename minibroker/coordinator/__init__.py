"""State machines with an injected clock and no event loop."""
