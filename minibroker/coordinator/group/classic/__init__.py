"""Classic groups, whose members assign partitions among themselves (JoinGroup, SyncGroup, Heartbeat, LeaveGroup). Not wired yet.

Who is in a group: members. What happens to it: rebalance (generations and time-outs) and group (requests). What is told: answers. What is
stored: records.
"""
