"""Check each request with the authorizer, by the `AUTHORIZES` of its schema.

Only brokers with an authorizer import this package.

These functions are the outermost ones around a handler: outside of faults, simulated brokers,
`like_kafka` and quotas. A refused request does not reach these, so that their answers reveal
nothing about it.

    enforcement.py     the rules that need only their declaration, and the table of functions for `Special` rules
    access.py          the questions of one request to the authorizer
    parts.py           requests that are refused in part
    records.py         Produce, Fetch, ShareFetch, OffsetForLeaderEpoch, transactional ids and producer ids
    topics.py          Metadata, DescribeTopicPartitions, CreateTopics, DeleteTopics, configs, DescribeCluster
    groups.py          groups and their offsets
"""
