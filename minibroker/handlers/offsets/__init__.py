"""APIs that commit, read and delete offsets of groups."""
