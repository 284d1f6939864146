"""The same commands of Kafka's tools to us and to Apache Kafka: `chapters` has the commands, `transcript` runs and compares."""
