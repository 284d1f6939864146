"""Listeners whose clients log in by SASL: the gate before the dispatcher, and the mechanisms of a listener."""
