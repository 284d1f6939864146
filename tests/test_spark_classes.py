"""Spark's programs start from the classes that were kept (tests/support/spark_classes.py): else they cost twice as much, without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.spark import session
from tests.support import spark_classes


def test_the_classes_that_were_kept_are_taken() -> None:
    problem = session.missing()
    if problem:
        pytest.skip(problem)
    archive = spark_classes.class_data()
    if archive is None or not archive.exists():
        pytest.skip("`make prepare` was not run")
    import pyspark

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--version"]
    words = [word.replace("-Xshare:auto", "-Xshare:on") for word in spark_classes.jvm_options()]
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(words)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_spark_python_processes_use_the_installed_packages(tmp_path: Path) -> None:
    program = spark_classes.python_without_archives(tmp_path)
    python_path = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10-src.zip:/one/a b:/other"
    environment = {**os.environ, "PYTHONPATH": python_path}
    found = subprocess.run(
        [program, "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.executable)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == f"/one/a b:/other {sys.executable}"
