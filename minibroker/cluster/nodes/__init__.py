"""The brokers that clients see: one, unless minibroker.testing.simulation adds more."""
