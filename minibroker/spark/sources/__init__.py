"""Sources of records: ranges of offsets, resolved once on the driver, and DataFrames of exactly these ranges.

    cluster       a Kafka cluster, read by Spark's connector    log_directory   a broker's files, read by `kafka-log`
    table         an archive, a table of files, a DataFrame     source          the interface of the first two
    positions     starts and ends as users write them -> ranges, checked
    ranges        ranges, and the columns of all sources

Invariants: nothing outside of a resolved range is read, even if clients write meanwhile. A range that
cannot be read whole is an error, never a smaller range. Look-ups need no PySpark; `table` does.
"""
