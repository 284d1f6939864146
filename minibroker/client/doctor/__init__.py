"""What `minibroker doctor` finds out from where it runs, as any client would, and what it advises.

reach.py       one address: is the name known, does somebody listen, is it Kafka, and of which cluster
advertised.py  an address that a broker tells its clients, and what to set when it cannot work from here
checks.py      what brokers say of themselves: versions, log directories, partitions, internal topics
checkup.py     all of it in the order in which a client meets it

Invariant: nothing is changed, no topic is created, and whatever fails is a finding, never an exception.
"""
