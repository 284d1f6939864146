"""The data source `kafka-log`: Spark reads the files of a Kafka log directory without a broker. See docs/kafka-log.md.

    source    PySpark's interface, batch and stream       stream     offsets of a stream, with its checkpoint
    options   options of users, and LogRanges             plan       options -> LogRanges
    directory, folder, transactions                       what the files of partitions hold
    reader    LogRange -> record batches of Arrow         frames     positions and headers of batches
    payloads  decompression side by side                  decoder    the choice between numpy and machine code
    fields    positions of fields, by numpy, with split   columns    Arrow columns made from them
    compiled  both by numba

Invariants: files are only opened for reading. Python code does not touch single records of format v2,
except in split. Only `source` imports PySpark.
"""
