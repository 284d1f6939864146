"""Orders become shipments, exactly once, with confluent-kafka; README.md says how it is run and tested."""
