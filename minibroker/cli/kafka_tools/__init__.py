"""Kafka's command-line tools with their names and options, for scripts and compose files on machines without Kafka.

    main       the table of tools, and how a tool fails
    arguments  options as in Kafka's tools
    brokers, topics, server, ...   one or several tools each: functions `(arguments) -> exit code`

Where scripts read output, the tools print the same as Kafka's: tests/cli/kafka_tools/test_kafka_tools.py compares both.
Options that are not supported are unknown options.
"""
