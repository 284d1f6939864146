"""The demonstration: 336,776 real flights through the broker and back out through Spark (`make demo`).

Also the shortest honest answer to "does it work with Spark?": every figure that it prints is checked against the source.
"""
