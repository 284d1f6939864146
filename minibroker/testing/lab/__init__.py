"""What a test does to a broker beyond what clients can: faults, held high watermarks, leaders, nodes, time, data. Docs: docs/lab.md.

operations.py       each operation, declared once as a typed method; the method is what does it
declaration.py      `@operation`, and what is made from a declaration: handles, calls by name with JSON
lab.py              Lab: the operations of one broker, executed by name on its loop's thread
handles.py          Fault, Hold and the groups of operations that tests use, also awaited
phrases.py          the words that inject a fault: `inject("Produce", ...).times(3)`
storage_faults.py   a file system that fails as a test says
site.py             the operations over HTTP, for other languages and for `minibroker lab`
lab_broker.py       a broker of any configuration with its lab, for `serve --lab-port`

Invariant: arguments and results are JSON, so that an operation is the same from a thread, a process and a program in another language.
"""
