"""Ask the authorizer about each request, as the `AUTHORIZES` of its schema says. Only brokers with an authorizer import this package.

The functions around handlers are the outermost ones: outside of faults, of simulated brokers, of `like_kafka` and of quotas. What the
authorizer refuses is not seen by any of them, so that their answers do not reveal it.

    enforcement.py     the rules that a declaration is enough for, and the table of functions for `Special` rules
    access.py          questions of one request
    records.py         Produce, Fetch, ShareFetch, OffsetForLeaderEpoch
    topics.py          Metadata, DescribeTopicPartitions, CreateTopics, DeleteTopics
    groups.py          groups and their offsets
    transactions.py    transactional ids and producer ids
    configs.py         configs, and the operations that DescribeCluster reports
"""
