"""A schema registry with Confluent's REST API, in the process of the broker.

    api/ --> service.py --> state.py      what the registry knows: the records of `_schemas`, replayed
                |             ^
                |             | records.py: the bytes of keys and values
                |           topic.py      appends to and reads `_schemas`
                '--> schema_types.py      parses schemas: avro/, json_schema/, protobuf/
                     compatibility.py     compares a schema with earlier versions

The topic `_schemas` is the only source of truth. Each change is appended first, and then read back
like the records of any other writer, so that another registry can work on the same topic.

Source: Confluent Schema Registry's documented REST API and its topic, as of version 8.1.
"""
