"""The settings of client libraries that connect to this broker, to paste."""

from __future__ import annotations

from typing import Final

_PLAIN: Final = {
    "Java, Kafka's tools": "bootstrap.servers={servers}",
    "Python: confluent-kafka": 'Producer({{"bootstrap.servers": "{servers}"}})',
    "Python: kafka-python": 'KafkaProducer(bootstrap_servers="{servers}")',
    "Python: aiokafka": 'AIOKafkaProducer(bootstrap_servers="{servers}")',
    "Go: franz-go": "kgo.NewClient(kgo.SeedBrokers({go_servers}))",
    "Node: KafkaJS": 'new Kafka({{ clientId: "app", brokers: [{js_servers}] }})',
    ".NET: Confluent.Kafka": 'new ProducerConfig {{ BootstrapServers = "{servers}" }}',
    "Spring Boot": "spring.kafka.bootstrap-servers={servers}",
    "Spark": '.option("kafka.bootstrap.servers", "{servers}")',
    "kcat": "kcat -b {servers} -L",
    "minibroker": "minibroker topics list -b {first}",
}
_SECURED: Final = {
    "Java, Kafka's tools": "bootstrap.servers={servers}\nsecurity.protocol={protocol}",
    "Python: confluent-kafka": 'Producer({{"bootstrap.servers": "{servers}", "security.protocol": "{protocol}"}})',
    "Spring Boot": "spring.kafka.bootstrap-servers={servers}\nspring.kafka.security.protocol={protocol}",
    "kcat": "kcat -b {servers} -X security.protocol={protocol} -L",
}


def snippets_of(servers: str, protocol: str) -> list[dict[str, str]]:
    """Return a snippet for each client library. Secured listeners need more, which docs/security.md explains."""
    each = servers.split(",")
    quoted = ", ".join(f'"{server}"' for server in each)
    chosen = _PLAIN if protocol == "PLAINTEXT" else _SECURED
    return [
        {"client": client, "text": text.format(servers=servers, first=each[0], go_servers=quoted, js_servers=quoted, protocol=protocol)}
        for client, text in chosen.items()
    ]
