"""The metadata log, which is the only source of truth, and the state that its records describe."""
