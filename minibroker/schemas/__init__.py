"""One file an API key: declarations only."""
