"""The web console of a broker: pages for a browser, on the broker's own loop. `serve --console-port` imports it.

    host.py      what the console shows: a running broker, its requests, its lab
    observer.py  requests as they are served: bodies, last requests of clients, events of groups, counters
    visitor.py   who looks at a page, and what they may see and do
    asking.py    requests that the console sends to the broker's own handlers, as the visitor
    reading.py   batches and records of a log, read in pieces; searching.py looks for some of them
    scanning.py  records that match, from bytes in a worker thread or from a file in another process
    pages/       one module for each page: its data as JSON, from which its template makes HTML
    actions/     what forms do
    site.py      HTTP: pages, their JSON twins, streams of changes, actions
    templates/   HTML, static/ one style sheet and one script

Invariants
  - A page never delays the broker: work on the loop pauses at least every millisecond (pace.py). Records are decoded in a worker
    thread, and searched in another process.
  - What one visitor can cause is bounded: rows of a page, bytes of a search, streams, sessions.
  - Nothing that comes from a record, a client or a configuration is executed: templates escape everything, and the pages' policy
    (Content-Security-Policy) allows no code besides static/console.js.
"""
