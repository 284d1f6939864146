"""Keys and values with a schema of a registry: bytes to JSON, and JSON to bytes. For the command line and the console.

    decoder.py --> source.py           where schemas come from: a registry by URL, or the one in this process
        |
        '--> codecs.py --> avro_*.py, json_validator.py, protobuf_codec.py
        '--> framing.py                the schema's id before the bytes, or in a header

A record of any client can be decoded safely: work and memory have limits, and no code of a schema runs.
JSON is that of Avro's and Protobuf's own JSON encodings.
"""
