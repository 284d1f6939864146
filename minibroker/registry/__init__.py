"""A schema registry with Confluent's REST API, in the process of the broker.

    site.py --> registry.py --> schemas.py, settings.py --> state.py    what the records of `_schemas` say, replayed
                                    |                         ^
                                    |                         | records.py: the bytes of keys and values
                                    |                       topic.py    appends to and reads `_schemas`
                                    |
                                    '--> compatibility.py --> avro_*.py, json_schema*.py    parse and compare schemas of one type

The topic `_schemas` is the only source of truth. Each change is appended first, and then read back
like the records of any other writer, so that another registry can work on the same topic.

Source: Confluent Schema Registry's documented REST API and its topic, as of version 8.1.
"""
