"""The data source `kafka-log`: Spark reads the files of a Kafka log directory without a broker. See docs/kafka-log.md.

    source     PySpark's interface, batch and stream      plan       options and offsets -> LogRanges
    options    options of users, and LogRanges            directory  partitions of directories, their transactions
    folder     the files of one partition                 reader     LogRange -> record batches of Arrow
    frames     positions and headers of batches           decoder    decompression; numpy or machine code
    fields     starts of records and fields, by numpy     columns    Arrow columns made from them
    compiled   both by numba

Invariants: files are only opened for reading. Python code does not touch single records of format v2,
except to find their starts. Only `source` imports PySpark.
"""
