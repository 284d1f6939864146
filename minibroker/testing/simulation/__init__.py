"""A cluster of several brokers, simulated by one broker with one set of data."""
