"""What Spark's JVMs make of their classes at each start, kept once for those that start later (JEP 350): half of what a start costs.

A JVM looks at the folder and the times of its jars, so the archive lies in the virtual environment that has them. It is for Spark's own
jars: those of the connector come later, by another class loader. `make prepare` makes it (tests/support/prepare.py); where it is missing,
all do without.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.support.java import SHORT_LIVED

#: What most tests have Spark do, so that most of what they need is loaded; at the end, the JVM ends in order and writes the archive.
TRAINING = """
import os, sys
from minibroker.spark.session import kafka_session

spark = kafka_session("training", master="local[2]", conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"})
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(100).selectExpr("id % 7 AS key", "CAST(id AS STRING) AS value")
rows.groupBy("key").count().orderBy("key").collect()
rows.write.partitionBy("key").parquet(sys.argv[1] + "/rows")
again = spark.read.parquet(sys.argv[1] + "/rows")
again.join(rows, ["key", "value"]).createOrReplaceTempView("joined")
spark.sql("SELECT key, max(value), row_number() OVER (ORDER BY key) FROM joined WHERE value LIKE '1%' GROUP BY key").collect()
rows.mapInArrow(lambda batches: batches, rows.schema).count()
stream = spark.readStream.schema(again.schema).parquet(sys.argv[1] + "/rows").writeStream.foreachBatch(lambda batch, number: batch.count())
stream.trigger(availableNow=True).option("checkpointLocation", sys.argv[1] + "/checkpoint").start().awaitTermination()
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
sys.exit(jvm.wait(240))
"""


def class_data() -> Path | None:
    """Where the archive is, or would be; None without PySpark."""
    try:
        return Path(sys.prefix) / f"spark-{version('pyspark')}.jsa"
    except PackageNotFoundError:
        return None


def jvm_options() -> list[str]:
    """JVM options of Spark's programs that live for seconds; they start from the archive, where there is one."""
    archive = class_data()
    kept = [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive is not None and archive.exists() else []
    return [*SHORT_LIVED, *kept]


def spare_cpu() -> None:
    """Let Spark and Maven, whose JVMs others start, take options like ours: a third to a half of the cost, and of Spark's start again."""
    short_lived = " ".join(SHORT_LIVED)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(jvm_options()))
    for name in ("SPARK_LAUNCHER_OPTS", "MAVEN_OPTS"):
        os.environ.setdefault(name, short_lived)
    if "PYSPARK_PYTHON" not in os.environ and class_data() is not None:
        folder = Path(tempfile.mkdtemp(prefix="minibroker-tests-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["PYSPARK_PYTHON"] = str(python_without_archives(folder))


def python_without_archives(folder: Path) -> Path:
    """A program that is this interpreter, but finds PySpark where it is installed.

    Spark has its Python processes import PySpark from a zip archive of the same files, where nothing is compiled: 0.6 s of CPU for each.
    """
    program = folder / "python"
    program.write_text(
        "#!/bin/sh\n"
        "rest=\n"
        "IFS=:\n"
        "for each in $PYTHONPATH; do\n"
        '  case "$each" in */pyspark.zip|*/py4j-*-src.zip) ;; *) rest="$rest${rest:+:}$each" ;; esac\n'
        "done\n"
        "unset IFS\n"
        f'PYTHONPATH="$rest" exec {shlex.quote(sys.executable)} "$@"\n'
    )
    program.chmod(0o755)
    return program


def keep(folder: Path) -> None:
    """Make the archive, with `folder` for what the training writes; once, whether or not it works."""
    from minibroker.spark import session

    archive = class_data()
    if archive is None or archive.exists() or session.missing():
        return
    new = archive.with_suffix(f".{os.getpid()}")
    words = [*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={new}", "-Xlog:disable"]
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(words)}
    trained = subprocess.run([sys.executable, "-c", TRAINING, str(folder)], env=environment, stdin=subprocess.DEVNULL, check=False)
    with suppress(OSError):
        if trained.returncode == 0:
            new.replace(archive)
        else:
            new.unlink()
