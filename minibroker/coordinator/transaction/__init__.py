"""Transactions: what each transactional id may do next (states), how it is stored (records), until when (timeouts)."""
