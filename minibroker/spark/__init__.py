"""Pipelines on Spark: PySpark code that reads from and writes to any Kafka broker through Spark's own connector.

Never imports server, dispatch or handlers: a pipeline meets the broker on the wire, like everybody else.
"""
