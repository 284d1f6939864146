"""A small synchronous client that speaks to any Kafka broker."""
