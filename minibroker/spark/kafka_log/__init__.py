"""The data source `kafka-log`: Spark reads the files of a Kafka log directory, without a broker. docs/kafka-log.md shows how.

    source    PySpark's interface: batch and stream       stream     offsets of a stream, with checkpoint
    options   what a user can ask for                     plan       options -> LogRanges (ranges), by
    directory, folder, transactions                       what the files of partitions say; aborted: which batches are void by it
    reader    LogRange -> record batches of Arrow, by     frames     headers of batches, the next one behind damage
    payloads  decompressed side by side, lz4_blocks       decoder    which of two ways: numpy or machine code
    fields    where fields are, by numpy, with split      columns    Arrow's columns of them
    compiled  the same by numba, and compiled_columns     worker     what PySpark's processes need not pay

Invariants: files are only read, never opened for writing. Records of format v2 are not touched one by one by Python, except in split.
Nothing here but `source` imports PySpark.
"""
