"""Consumer groups of KIP-848, whose partitions the broker assigns (ConsumerGroupHeartbeat). Not wired yet.

Who shall read what: assignors (uniform, uneven, ranges).
"""
