"""Records that Kafka keeps in topics and files: the metadata log and its control records."""
