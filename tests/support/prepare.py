"""What tests fetch or make once on a machine, before they need it: python -m tests.support.prepare (`make prepare`).

Kafka's jars and the classes that its programs start from, Spark's connector and likewise; the tests themselves, compiled: the workers of
pytest-xdist would all compile all of them at the same time. Nothing depends on it: what is missing then, for want of Java, Maven or a
network, tests fetch themselves, or skip.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import spark_classes
from tests.support.java import CONNECT, KAFKA_VERSION, STREAMS, fetch, kafka_coordinates, kafka_jars
from tests.support.kafka_process import keep_class_data
from tests.support.old_java import VERSIONS, coordinates_of


def main() -> None:
    """All of it; what is there already costs little."""
    subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-qq"], stdout=subprocess.DEVNULL, check=False)
    spark_classes.spare_cpu()
    with tempfile.TemporaryDirectory() as folder:
        spark_classes.keep(Path(folder))
    with suppress(pytest.skip.Exception, subprocess.CalledProcessError):
        fetch(_all_jars())
        keep_class_data(kafka_jars())


def _all_jars() -> dict[str, tuple[str, ...]]:
    """Of one Maven: each start of one costs two seconds of CPU."""
    wanted = {f"kafka-{KAFKA_VERSION}": kafka_coordinates(), STREAMS[0]: STREAMS[1:], CONNECT[0]: CONNECT[1:]}
    for version in VERSIONS:
        wanted |= coordinates_of(version)
    return wanted


if __name__ == "__main__":
    main()
