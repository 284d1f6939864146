"""Share groups (KIP-932) where they meet records: who has which record, and `__share_group_state`, which keeps what became of them.

Who the members of a group are, and which partitions they are assigned, is coordinator/group/share's.
"""
