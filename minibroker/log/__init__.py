"""One partition's log, built from storage."""
