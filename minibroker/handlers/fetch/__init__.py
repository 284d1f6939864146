"""Fetch (key 1): its sessions, and how partitions are read."""
