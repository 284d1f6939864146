"""A standalone cluster of Spark on this machine, by PySpark's own scripts: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.support.spark_classes import jvm_options

MASTER_READY = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
WORKER_READY = re.compile(r"Successfully registered with master")
READY_TIMEOUT_S = 180.0


class SparkCluster:
    """Up when the context begins; `master` is its address. Executors' own output is under `folder`/worker-N."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.master = ""
        self._folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

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
        output = self._folder / f"{name}.txt"
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
        with output.open("wb") as out:
            process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment
            )
        self._processes.append(process)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            text = output.read_text(errors="replace")
            found = ready.search(text)
            if found:
                return found
            assert process.poll() is None, f"Spark's {name} ended with {process.returncode}:\n{text[-3000:]}"
            assert time.monotonic() < deadline, f"Spark's {name} is not ready within {READY_TIMEOUT_S} s:\n{text[-3000:]}"
            time.sleep(0.1)

    def _stop(self) -> None:
        """Workers first: they end their executors, as SIGTERM asks them to."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
