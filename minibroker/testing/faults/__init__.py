"""Faults of requests: errors, delays and cut connections, which a test injects (docs/faults.md).

rule.py           the rules from JSON: what happens, to which requests or logins, and how often
effects.py        whether a rule is for a request, and what then happens to it
faults.py         RequestFaults: the rules of one broker, and the handlers that they wrap
logins.py         LoginFaults: the rules for TLS handshakes and logins
login_effects.py  faulty certificates, and logins that are refused or late

Invariant: without rules a broker runs the same handlers as one without this package.
"""
