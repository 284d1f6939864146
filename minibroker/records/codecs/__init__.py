"""One module for each compression codec; compression.py imports each at the first use of its codec."""
