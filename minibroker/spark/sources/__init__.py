"""Where the records of a pipeline come from: ranges of offsets that are resolved once, on the driver, and frames of exactly these.

    cluster         a Kafka cluster, by Spark's connector          log_directory   a broker's files, by `kafka-log`
    table           an archive, a table of files, a DataFrame      columns         what all of them give
    positions       where to begin and end, as users write it      resolution      positions -> ranges (ranges), checked
    source          what cluster and log_directory have in common
    errors          what a user can do something about            conditions     many of Spark's conditions as one

Invariants: nothing is read beyond a resolved range, however much is written meanwhile; a range that cannot be read whole is an error, never
a smaller range. Only `frame` and `table` need PySpark.
"""
