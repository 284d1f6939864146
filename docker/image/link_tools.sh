#!/bin/sh
# Makes the links by which the tools are called: Kafka's names with .sh, Confluent's names without.
set -e
image=$1
mkdir -p "$image/opt/kafka/bin" "$image/usr/bin" "$image/opt/bitnami"
for tool in $(PYTHONPATH= python3 -c 'from minibroker.cli.kafka_tools.main import names; print(*names())'); do
  ln -s /usr/local/bin/kafka-tool "$image/opt/kafka/bin/$tool.sh"
  ln -s /usr/local/bin/kafka-tool "$image/usr/bin/$tool"
done
ln -s /opt/kafka "$image/opt/bitnami/kafka"
