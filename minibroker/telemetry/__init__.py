"""Client telemetry (KIP-714): clients push their own metrics to the broker.

    telemetry.py       `Telemetry`: what the handlers of GetTelemetrySubscriptions and PushTelemetry use
    subscriptions.py   `Subscriptions`: which client pushes what, from the configs of client metrics
    instances.py       `Instances`: the protocol's state of each client instance, and its checks
    payload.py         `decoded`: from a compressed OpenTelemetry message to data points, within limits
    clients.py         `Clients`: client instances, and the latest value of each of their metrics

`ctx.broker.telemetry` is None if telemetry is off (`minibroker.telemetry`), if a library is missing, or with `minibroker.like.kafka`:
Apache Kafka serves telemetry only with a plugin that receives it. Everything but `decoded` runs on the thread that owns the broker.
"""
