"""Groups of all kinds and their committed offsets, kept in `__consumer_offsets`. Start at kind.py."""
