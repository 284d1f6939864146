"""Coordinators of groups, transactions and share states: state machines with an injected clock and no event loop."""
