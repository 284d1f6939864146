"""What a broker under test cannot do, in one line: what, where, what to do. Answers of Kafka itself are `minibroker.errors.KafkaError`."""

from __future__ import annotations


class BrokerError(Exception):
    """The broker did not start, is not running, or what was waited for did not come."""


class Unsupported(BrokerError):  # noqa: N818  named for what happened
    """Only a broker of ours can do that: this is a given cluster (`--minibroker-bootstrap`)."""
