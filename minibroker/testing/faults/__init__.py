"""Requests that fail, wait, or find their connection cut, as a test says (docs/faults.md).

rule.py       FaultRule: what happens, to which requests, how often; JSON in and out
matching.py   whether a request is one that a rule is for
effects.py    what happens to a request that rules hit
faults.py     Faults: the rules of one broker, and the handlers around which they are

Invariant: a broker without rules runs the very handlers that one without this package runs.
"""
