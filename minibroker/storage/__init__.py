"""One module for each kind of file in a Kafka log directory."""
