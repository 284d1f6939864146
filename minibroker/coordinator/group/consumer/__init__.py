"""Consumer groups of KIP-848, whose partitions the broker assigns (ConsumerGroupHeartbeat).

What members ask for: requests, and group, which answers. What one request or time-out changes: step. How a member gets what it shall
have: reconciliation. Who shall have what: assignors (uniform, uneven, ranges), for what subscriptions says. What is stored: records; what
they say: image, of members.

Members that speak the classic protocol: mixed_group, in the words of classic_protocol. How a group changes its kind: migration.
"""
