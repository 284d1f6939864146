"""The data source `kafka-log`: Spark reads the files of a Kafka log directory, without a broker. docs/kafka-log.md shows how.

    source    PySpark's interface: batch and stream       stream     offsets of a stream
    options   what a user can ask for                     plan       options -> LogRanges (ranges), by
    directory, folder, transactions                       what the files of partitions say
    reader    LogRange -> record batches of Arrow, by     frames     headers of batches, the next one behind damage
    split     where records begin                         fields     where their fields are        columns  Arrow's columns

Invariants: files are only read, never opened for writing. Records of format v2 are not touched one by one, except by split.
Nothing here but `source` imports PySpark.
"""
