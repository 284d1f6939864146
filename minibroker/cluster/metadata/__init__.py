"""The metadata log, which is the only source of truth, and what its records say."""
