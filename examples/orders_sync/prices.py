"""The price list: a compacted topic, a product's last price under its name; without a value the product is sold no more."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

TOPIC = "prices"
TIMEOUT_S = 30.0


def read_prices(bootstrap_servers: str) -> dict[str, int]:
    """All prices as they are now, in cents by product."""
    end_is_told = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused", "enable.auto.commit": False, **end_is_told})
    try:
        partitions = consumer.list_topics(TOPIC, TIMEOUT_S).topics[TOPIC].partitions
        consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in partitions])
        return _read_to_the_end(consumer, set(partitions))
    finally:
        consumer.close()


def _read_to_the_end(consumer: Consumer, unread: set[int]) -> dict[str, int]:
    prices: dict[str, int] = {}
    while unread:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise TimeoutError(f"topic {TOPIC} could not be read within {TIMEOUT_S:g} s")
        error = message.error()
        if error is None:
            product, price = message.key().decode(), message.value()
            if price is None:
                prices.pop(product, None)
            else:
                prices[product] = int(price)
        elif error.name() == "_PARTITION_EOF":
            unread.discard(message.partition())
        else:
            raise KafkaException(error)
    return prices
