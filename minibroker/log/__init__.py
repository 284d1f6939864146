"""The log of one partition: appends, reads, recovery, retention, compaction and checks."""
