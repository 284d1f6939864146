"""Pipelines on Spark: PySpark code that reads from and writes to any Kafka cluster, on a laptop or a cluster of Spark's.

    session     a session with Spark's Kafka connector        package    this package for executors elsewhere
    sources     where records come from, in exact ranges      kafka_log  the data source that reads log directories
    archive     topics -> tables, exactly once                replay     tables -> topics
    audit       two sides compared                            report     what topics hold
    sql         topics as views                               sizes      bytes as people read them
    progress, failures   what a user sees meanwhile, and when it fails

Never imports server, dispatch or handlers: a pipeline meets the broker on the wire, like everybody else. Nothing here imports PySpark
before it is called.
"""
