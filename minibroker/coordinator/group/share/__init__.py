"""Share groups (KIP-932): several members may read one partition, and each record is acknowledged by itself.

Here is who is in a group and what a member may fetch. What members ask for: requests, and group, which answers. What one request
or time-out changes: step. Who shall have what: assignor. Which partitions have a state at the share coordinator: state_partitions. What is
stored: records; what they say: image, of members. What becomes of records is said elsewhere: coordinator/share.
"""
