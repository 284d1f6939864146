"""A small application: reads orders, keeps the total of each customer, and tells every new one in the topic `totals`."""

from __future__ import annotations

import json
import os
from collections import Counter

from kafka import KafkaConsumer, KafkaProducer


def main() -> None:
    """Run for ever."""
    servers = os.environ["BOOTSTRAP_SERVERS"]
    totals: Counter[str] = Counter()
    producer = KafkaProducer(bootstrap_servers=servers)
    for record in KafkaConsumer("orders", bootstrap_servers=servers, group_id="totals", auto_offset_reset="earliest"):
        order = json.loads(record.value)
        totals[order["customer"]] += order["cents"]
        producer.send("totals", key=order["customer"].encode(), value=b"%d" % totals[order["customer"]])
        producer.flush()


if __name__ == "__main__":
    main()
