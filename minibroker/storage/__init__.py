"""One module a kind of file in a Kafka log directory."""
