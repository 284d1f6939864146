"""A standalone Spark cluster on this machine, started by PySpark's own scripts: a process for the master and one for each worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.child_process import ChildProcess
from tests.support.spark_classes import jvm_options

MASTER_READY = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
WORKER_READY = re.compile(r"Successfully registered with master")
READY_TIMEOUT_S = 180.0


class SparkCluster:
    """Runs during the context; `master` is its address. Executors' output is under `folder`/worker-N."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.master = ""
        self._folder = folder
        self._workers = workers
        self._processes: list[ChildProcess] = []

    def __enter__(self) -> Self:
        try:
            self.master = self._start("master", MASTER_READY, "master.Master")[1]
            for number in range(self._workers):
                name = f"worker-{number}"
                directory = str(self._folder / name)
                self._start(name, WORKER_READY, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", directory, self.master)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self, name: str, ready: re.Pattern[str], program: str, *arguments: str) -> re.Match[str]:
        import pyspark

        home = str(Path(pyspark.__file__).parent)
        command = [
            f"{home}/bin/spark-class",
            f"org.apache.spark.deploy.{program}",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
        ]
        environment = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        environment["SPARK_DAEMON_JAVA_OPTS"] = " ".join(jvm_options())
        process = ChildProcess([*command, *arguments], self._folder / f"{name}.txt", env=environment)
        self._processes.append(process)
        return process.wait_for(ready, READY_TIMEOUT_S)

    def _stop(self) -> None:
        """Stop the workers first: on SIGTERM they stop their executors."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._processes):
            with suppress(subprocess.TimeoutExpired):
                process.stop(30)
