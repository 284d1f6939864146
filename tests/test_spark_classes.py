"""Spark's programs start from the classes that were kept (tests/support/spark_classes.py): else they cost twice as much, without a word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from minibroker.spark import session
from tests.support import spark_classes


@pytest.mark.spark
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
