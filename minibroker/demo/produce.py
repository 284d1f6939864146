"""Flights into the broker by a real client: librdkafka, through confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minibroker.demo.flights import Flight

#: The client asks for delivery reports this often; each is one acknowledged record.
POLL_EVERY = 2_000


def produce(bootstrap_servers: str, topic: str, flights: Iterable[Flight], on_progress: Callable[[int], None]) -> tuple[int, list[str]]:
    """Send every flight with an idempotent producer; the number acknowledged and the errors of those that were not."""
    from confluent_kafka import Producer  # noqa: PLC0415  a library of the extra `dev`

    acknowledged = 0
    errors: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            errors.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 20,
            "partitioner": "murmur2_random",  # the Java client's: a key is in the same partition whoever writes it
            "queue.buffering.max.messages": 200_000,
        }
    )
    sent = 0
    for flight in flights:
        while True:
            try:
                producer.produce(
                    topic, key=flight.key, value=flight.value, timestamp=flight.timestamp_ms, headers=flight.headers, on_delivery=delivered
                )
                break
            except BufferError:  # the queue is full: let the broker catch up
                producer.poll(0.1)
        sent += 1
        if sent % POLL_EVERY == 0:
            producer.poll(0)
            on_progress(POLL_EVERY)
    producer.flush(60)
    on_progress(sent % POLL_EVERY)
    return acknowledged, errors
