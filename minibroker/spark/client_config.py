"""How pipelines connect by TLS and SASL: one client configuration for the driver, for tasks, and for Spark's connector.

The configuration has the properties of Java's clients or of librdkafka, as in the file of `--command-config`. Its files are read on the
driver, so executors need none of them. It is only in options of readers and in tasks, which Spark does not show; the session hides the
options that it does show (session.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from minibroker.client.connection import Connect, connect
from minibroker.client.security.portable import portable
from minibroker.errors import ConfigurationError
from minibroker.spark.failures import SourceError


def executor_config(client_config: Mapping[str, str] | None) -> dict[str, str]:
    """Return a client configuration that needs no files; empty for connections by PLAINTEXT.

    Raises:
        SourceError: a property is missing or invalid, or Spark's connector cannot have it.
    """
    if not client_config:
        return {}
    try:
        found = portable(client_config)
    except ConfigurationError as error:
        raise SourceError(str(error)) from error
    return {} if found == {"security.protocol": "PLAINTEXT"} else found


def connect_of(config: Mapping[str, str]) -> Connect:
    """Return how to connect with what `executor_config` returned."""
    if not config:
        return connect
    from minibroker.client.security.connecting import connector  # noqa: PLC0415  needs TLS and SASL

    return connector(config)


def kafka_options(client_config: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink, `kafka.` and a property, for a client configuration.

        spark.read.format("kafka").options(**kafka_options(config)).option("subscribe", "orders")

    Raises:
        SourceError: a property is missing or invalid, or Spark's connector cannot have it.
    """
    found = {f"kafka.{name}": text for name, text in executor_config(client_config).items()}
    if "bootstrap.servers" in client_config:
        found["kafka.bootstrap.servers"] = client_config["bootstrap.servers"]
    return found
