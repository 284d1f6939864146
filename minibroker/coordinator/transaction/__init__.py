"""The transaction coordinator. Start at states.py: the table of what a transactional id may do next."""
