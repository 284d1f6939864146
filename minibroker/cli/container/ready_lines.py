"""The lines by which programs that start containers know that Apache Kafka is ready; they look for parts of them in the log."""

from __future__ import annotations

import time


def kafka_ready_lines(node_id: int) -> list[str]:
    """In the form of Kafka's own log: for Testcontainers the first two, for others the last one."""
    moment = time.time()
    head = f"[{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(moment))},{int(moment * 1000) % 1000:03d}] INFO"
    life = f"[BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
    return [
        f"{head} {life} (kafka.server.BrokerLifecycleManager)",
        f"{head} [KafkaServer id={node_id}] started (kafka.server.KafkaServer)",
        f"{head} [KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    ]
