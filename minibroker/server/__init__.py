"""asyncio lives here alone."""
