"""Faults of requests: errors, delays and cut connections, as a test says (docs/faults.md).

rule.py       FaultRule: what happens and to which requests, from JSON
matching.py   whether a rule is for a request
frequency.py  how often a fault hits, of requests and of the storage
effects.py    what happens to a request that rules hit
faults.py     RequestFaults: the rules of one broker, and the handlers that they wrap

Invariant: without rules a broker runs the same handlers as one without this package.
"""
