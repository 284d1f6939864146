"""Pipelines on Spark: PySpark code that reads from and writes to any Kafka cluster.

    session     a session with Spark's Kafka connector    sources    ranges of records to read
    kafka_log   the data source that reads log directories
    archive     topics -> tables, exactly once            replay     tables -> topics
    audit       compare two sides                         report     what topics hold
    sql         topics as views                           failures   errors, and why Spark failed, in one line
    decoding    values by the schemas of a registry       progress   what users see while a pipeline runs

Invariant: a pipeline talks to brokers over the wire. It imports client, records, storage, schemas,
wire and config, and errors and clock below them; of registry, client and protoc; no other package of the
broker. session, sql and
the sources of topics import PySpark only when Spark is needed, so that look-ups work before it starts.
"""
