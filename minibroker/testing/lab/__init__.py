"""Operations of a test on its broker that clients do not have: faults, held high watermarks, leaders, nodes, time, data (docs/lab.md).

operations.py       each operation, declared once as a typed method; the method does it
declaration.py      `@operation`, and what follows from a declaration: handles, calls by name with JSON
lab.py              Lab: the operations of one broker, executed by name on its loop's thread
handles.py          Fault, Hold and the groups of operations that tests use, also awaited
phrases.py          the methods that inject a fault: `inject("Produce", ...).times(3)`
storage_faults.py   a file system whose calls fail by the rules of a test
site.py             the operations over HTTP, for other languages and for `minibroker lab`
lab_broker.py       a broker of any configuration with its lab, for `serve --lab-port`

Invariant: arguments and results are JSON, so that an operation is the same from a thread, a process
and a program in another language.
"""
