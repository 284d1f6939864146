"""A driver of Spark that archives until nothing is left, for tests that kill it.

    python -m tests.crash.archiving BOOTSTRAP ARCHIVE TOPIC batch|stream

Says `ready` when Spark is up, and `done` when it has archived what there is; what fails meanwhile is tried again.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from minibroker.spark import session as spark_session
from minibroker.spark.archive import AVAILABLE_NOW, archive, follow
from minibroker.spark.sources.cluster import ClusterSource

OFFSETS_PER_RUN = 400
TIMES = 40  #: tries


def main() -> None:
    """Archive."""
    bootstrap, path, topic, mode = sys.argv[1:]
    spark = start()
    print("ready", flush=True)
    for _ in range(TIMES):
        try:
            work(spark, bootstrap, path, topic, mode)
        except Exception as error:  # noqa: BLE001  whatever a killed broker makes of it: Spark's, Kafka's, ours
            print(f"again: {type(error).__name__}: {str(error)[:300]}", flush=True)
            time.sleep(0.5)
        else:
            print("done", flush=True)
            return
    sys.exit(1)


def work(spark: Any, bootstrap: str, path: str, topic: str, mode: str) -> None:
    """Once."""
    source = ClusterSource(bootstrap, options={"kafkaConsumer.pollTimeoutMs": "20000"})
    if mode == "batch":
        archive(spark, source, path, [topic], offsets_per_run=OFFSETS_PER_RUN)
        return
    with follow(spark, source, path, [topic], trigger=AVAILABLE_NOW, max_offsets_per_trigger=OFFSETS_PER_RUN) as stream:
        stream.wait()


def start() -> Any:
    """A session that says nothing of broken connections."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
    spark = spark_session.kafka_session("archiving", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    main()
