"""Metrics of a broker: counters of its requests, and /metrics with the names that dashboards and alerts use. Docs: docs/metrics.md.

counts.py         the counters, as plain integers and lists
counting.py       decoders and encoders that count
meter.py          `Meter`: all counters of a broker, and the times of some of its requests
state.py          what a scrape reads of the broker, in slices: partitions, groups, connections
assignments.py    which members of a group have which partitions
commits.py        how many offsets each group committed
family.py         families of series and their text
texts.py          the text of the last scrape, which is used again where nothing changed
labels.py         label sets, whose text is cached
names/            the families by who asks for them: kafka_exporter, jmx, kminion, lag, burrow, redpanda, otel, minibroker
scrape.py         one scrape, in slices between which the broker serves
site.py           /metrics over HTTP

A scrape reads the state of the broker. Between scrapes only the counters cost something, and a broker without metrics has none: the meter
hooks dispatchers and connections when they are created.
"""
