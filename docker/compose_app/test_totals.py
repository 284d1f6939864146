"""Integration tests of totals.py, beside it and the broker in containers of their own."""

from __future__ import annotations

import json
import os

from kafka import KafkaConsumer, KafkaProducer

SERVERS = os.environ["BOOTSTRAP_SERVERS"]


def totals_until(customer: str, cents: int) -> dict[str, int]:
    """What the application told, until it told this."""
    found: dict[str, int] = {}
    for record in KafkaConsumer("totals", bootstrap_servers=SERVERS, auto_offset_reset="earliest", consumer_timeout_ms=20_000):
        found[record.key.decode()] = int(record.value)
        if found.get(customer) == cents:
            break
    return found


def test_orders_of_the_seed_are_counted() -> None:
    assert totals_until("ann", 750)["ann"] == 750


def test_a_new_order_is_counted() -> None:
    with KafkaProducer(bootstrap_servers=SERVERS) as producer:
        producer.send("orders", json.dumps({"customer": "cleo", "cents": 42}).encode(), key=b"cleo")
    assert totals_until("cleo", 42)["cleo"] == 42
