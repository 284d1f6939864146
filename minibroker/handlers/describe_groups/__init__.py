"""APIs that describe groups, one for each kind of group."""
