"""A schema registry with Confluent's REST API, in the process of the broker.

    site.py --> registry.py --> schemas.py, settings.py --> state.py
                                        |                      |
                                        |                  topic.py, records.py
                                        '--> compatibility.py --> avro_*.py, json_schema*.py, protobuf_*.py

    site           routes, requests and responses
    registry       what each request does
    schemas        registrations, look-ups, deletions
    settings       configurations and modes
    state          what the records of `_schemas` say, replayed
    topic, records reads and appends these records; their bytes
    validation     checks schema ids in Produce, with record_ids
    schema_files   schemas in files, which are registered before clients come
    compatibility  compares a schema with earlier versions; each type of schemas has its own rules

The topic `_schemas` is the only source of truth. Each change is appended first, and then read back
like the records of any other writer, so that another registry can work on the same topic.

Source: Confluent Schema Registry's documented REST API and its topic, as of version 8.1.
"""
