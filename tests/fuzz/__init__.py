"""A fuzzer of the broker: requests of every API and version, mutated, over real sockets, and an honest client beside them.

    python -m tests.fuzz run [--frames 1000000] [--seed N] [--logins] [--assert-latency]
    python -m tests.fuzz replay FILE...

How a frame is made: `templates.py` has valid requests (golden frames, and requests that `values.py` draws for each version),
`layout.py` finds the fields in their bytes, `mutations.py` changes fields and bytes. `sequences.py` holds conversations
that make progress (join a group, open a session, begin a transaction), now and then with a mutated step.
How it is sent: `connection.py` pipelines frames and tears them at random, `driver.py` keeps many connections going.
What must hold: `answers.py` decodes every answer and looks at every error code, `driver.py` waits for an answer or a close,
`run.py` looks at the process, its log, its memory, its data directory, and at the honest client (`honest.py`).
`logins.py` holds conversations before the login instead, with the listeners of `login_listeners.py` (`run --logins`).
A frame that breaks one of these is written to a file (`findings.py`) that `replay` sends again. Those of `corpus/` come first in each run.
"""
