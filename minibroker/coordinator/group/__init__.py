"""Groups: what they committed (offsets), as records (records) of a partition of `__consumer_offsets` (shard), read and written (store).

How long offsets are kept is in retention, what requests ask for in coordinator.
"""
