"""Streams groups of KIP-1071: the broker gives out the tasks of a Kafka Streams application (StreamsGroupHeartbeat).

What members ask for: requests, and group, which answers. What one request or time-out changes: step. What the application is: topology;
which topics it needs, and how many tasks that makes: internal_topics; making them: configuring. Who shall have which task: sticky, with
processes. How a member gets what it shall have: reconciliation. Who is where, for interactive queries: endpoints. What is stored: records;
what they say: image, of members.
"""
