"""Kafka's own command-line tools by their names and options, for scripts and compose files that call them where no Kafka is installed.

    main       which tool, and how it fails
    arguments  options as Kafka's tools take them
    topics, groups, configs, ...   a module for each tool: `run(arguments) -> exit code`

They print what Kafka's tools print, where scripts read it: held against them in tests/cli/kafka_tools/test_kafka_tools.py. What a tool
does not do here is an option that it does not know.
"""
