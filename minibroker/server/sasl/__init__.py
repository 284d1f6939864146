"""Listeners whose clients log in by SASL: the gate before the dispatcher, and what mechanisms a listener has."""
