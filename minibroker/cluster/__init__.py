"""Topics, partitions, configs and the metadata log."""
