"""The share coordinator: `__share_group_state` has how far each share group has read each partition (KIP-932).

Members of share groups are in `coordinator/group/share/`, and records in flight in
`coordinator/share_partition/`.
"""
