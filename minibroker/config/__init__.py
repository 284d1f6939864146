"""Kafka's properties: names, units, defaults, limits."""
