"""Topics, partitions, log directories, configs and the metadata log."""
