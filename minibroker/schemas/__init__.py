"""One module for each API key. They contain only declarations."""
