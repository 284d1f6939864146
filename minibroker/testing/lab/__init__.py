"""What a test does to a broker beyond what clients can: faults, held high watermarks, leaders, nodes, time, data. Docs: docs/lab.md.

command_table.py    names, arguments and their types; one line where something is wrong
commands.py         Lab: the commands of one broker, on its loop's thread
failing_files.py    a file system that fails; storage_faults.py says when
holds.py            high watermarks that are held back
handles.py          what a test holds in its hand, whichever way its broker runs; async_handles.py awaited,
                    phrases.py the words of both: `.once()`, `.times(3)`
http_server.py      the commands over HTTP on loopback, for other languages and for `minibroker lab`
lab_server.py       a broker of any configuration with its lab, for `serve --lab-port`

Invariant: everything that is said to a lab and everything that it answers is JSON, so that a thread, a process and a program in another
language say the same.
"""
