"""Share partitions in flight: which member of a share group has which record, and share sessions (KIP-932)."""
