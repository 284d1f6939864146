"""Log directories and the logs of partitions in them."""
