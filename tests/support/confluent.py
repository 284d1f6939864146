"""confluent-kafka's clients without the lines that librdkafka writes to standard error.

A client lives until Python's collector finds it, which is often after its broker. librdkafka then reports each lost connection, and
each event that an AdminClient did not fetch. Tests see failures in results and exceptions.
"""

from __future__ import annotations

from typing import Any

import confluent_kafka
import confluent_kafka.admin

SILENT = {"log_level": 0}


class Producer(confluent_kafka.Producer):  # type: ignore[misc]  # a class of C, without types
    def __init__(self, config: dict[str, Any], **others: Any) -> None:
        super().__init__(SILENT | config, **others)


class Consumer(confluent_kafka.Consumer):  # type: ignore[misc]  # a class of C, without types
    def __init__(self, config: dict[str, Any], **others: Any) -> None:
        super().__init__(SILENT | config, **others)


class AdminClient(confluent_kafka.admin.AdminClient):  # type: ignore[misc]  # without types
    def __init__(self, config: dict[str, Any], **others: Any) -> None:
        super().__init__(SILENT | config, **others)
