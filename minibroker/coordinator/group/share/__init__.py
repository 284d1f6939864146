"""Share groups (KIP-932): several members may read one partition, and acknowledge single records.

This package has the members of a group and the partitions that they may fetch. Records in flight
are in `coordinator/share_partition/`, and stored share states in `coordinator/share_state/`.
"""
