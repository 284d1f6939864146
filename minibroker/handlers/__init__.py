"""One file an API key and nothing else."""
