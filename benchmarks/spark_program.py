"""One Spark session for all brokers of a run: a JVM that is warm, so that no broker waits for it.

A command is a line of JSON on standard input, `{"do": NAME, ...}`; its answer a line of JSON on standard output, `{"failed": WHY}` if it
failed. The program ends with its input. Spark is local with two threads, and has its connector's defaults but for idle consumers, which it
forgets soon: the broker that they know is gone.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from minibroker.spark.session import kafka_session

CONF = {
    "spark.driver.memory": "1g",
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.network.timeout": "1d",  # the process is paused between loads; the executor must not count as lost
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "2s",
}
PATIENCE_S = 300


def ranges(spark: Any, command: dict[str, Any]) -> dict[str, Any]:
    """Read each range of {partition: offset} and check the count; return the seconds of each read."""
    seconds = []
    for start, end in command["ranges"]:
        began = time.perf_counter()
        offsets = {"startingOffsets": json.dumps({command["topic"]: start}), "endingOffsets": json.dumps({command["topic"]: end})}
        rows = _source(spark.read, command, offsets).load().select("offset", "value").collect()
        seconds.append(time.perf_counter() - began)
        if len(rows) != command["records"]:
            raise ValueError(f"{len(rows)} rows instead of {command['records']}")
    return {"seconds": seconds}


def whole(spark: Any, command: dict[str, Any]) -> dict[str, Any]:
    """Read and discard all records; return the seconds."""
    began = time.perf_counter()
    _source(spark.read, command, {"startingOffsets": "earliest"}).load().write.format("noop").mode("overwrite").save()
    return {"seconds": time.perf_counter() - began}


def available(spark: Any, command: dict[str, Any]) -> dict[str, Any]:
    """Run a query over the existing records in batches of `records`; return the seconds, and the time of each batch."""
    began = time.perf_counter()
    query = _query(spark, command, {"maxOffsetsPerTrigger": str(command["records"])}).trigger(availableNow=True).start()
    query.awaitTermination(PATIENCE_S)
    seconds = time.perf_counter() - began
    if query.exception() is not None:
        raise ValueError(str(query.exception()))
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    triggers_ms = [each["durationMs"]["triggerExecution"] for each in batches]
    return {"seconds": seconds, "rows": sum(each["numInputRows"] for each in batches), "triggers_ms": triggers_ms}


class Running:
    """The query that continues between commands."""

    def __init__(self) -> None:
        self.query: Any = None

    def begin(self, spark: Any, command: dict[str, Any]) -> dict[str, Any]:
        """Start a query without a pause between batches; return when it has read the existing records."""
        self.query = _query(spark, command, {"startingOffsets": "earliest"}).trigger(processingTime="0 seconds").start()
        self.query.processAllAvailable()
        return {}

    def catch_up(self, _spark: Any, _said: dict[str, Any]) -> dict[str, Any]:
        """Return when the query has read all records written before."""
        self.query.processAllAvailable()
        return {}

    def end(self, _spark: Any, _said: dict[str, Any]) -> dict[str, Any]:
        """Stop the query; return the time of each batch."""
        batches = [each for each in self.query.recentProgress if each["numInputRows"]]
        self.query.stop()
        return {"triggers_ms": [each["durationMs"]["triggerExecution"] for each in batches]}


def _source(reader: Any, command: dict[str, Any], options: dict[str, str]) -> Any:
    return reader.format("kafka").options(**{"kafka.bootstrap.servers": command["at"], "subscribe": command["topic"], **options})


def _query(spark: Any, command: dict[str, Any], options: dict[str, str]) -> Any:
    stream = _source(spark.readStream, command, {"startingOffsets": "earliest", **options}).load()
    folder = tempfile.mkdtemp(prefix="checkpoint-", dir=command["folder"])
    return stream.writeStream.format("noop").option("checkpointLocation", folder)


def _reason(error: Exception) -> str:
    """Return the first line of a Java error, and its innermost cause."""
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith("Caused by")]
    return " ".join([type(error).__name__, *lines[:1], *causes[-1:]])


def main() -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Spark's output must not mix with answers
    spark = kafka_session("minibroker-bench", master="local[2]", conf=CONF)
    spark.sparkContext.setLogLevel("OFF")
    running = Running()
    commands: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
        "ranges": ranges,
        "whole": whole,
        "available": available,
        "begin": running.begin,
        "catch_up": running.catch_up,
        "end": running.end,
    }
    print(json.dumps({}), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = commands[command["do"]](spark, command)
        except Exception as error:  # noqa: BLE001  the answer reports any error
            answer = {"failed": _reason(error)}
        print(json.dumps(answer), file=answers)
    spark.stop()


if __name__ == "__main__":
    main()
