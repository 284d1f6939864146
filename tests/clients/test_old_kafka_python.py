"""kafka-python 1.4.7 and 2.0.2, pinned to the brokers of 0.8.2 to 1.0: a second implementation of the old formats, in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.old_python import old_kafka_python
from tests.support.old_versions import require_old_versions

PROGRAM = Path(__file__).with_name("old_kafka_python.py")
API_VERSIONS = ["0.8.2", "0.9", "0.10", "0.11", "1.0"]
WITH_TIMESTAMPS = {"0.10", "0.11", "1.0"}


@pytest.mark.parametrize("version", ["1.4.7", "2.0.2"])
def test_each_pinned_version_reads_records_of_all(version: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    require_old_versions(bootstrap)
    topic = new_topic(**{"retention.ms": "-1"})
    environment = os.environ | {"PYTHONPATH": str(old_kafka_python(version))}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), bootstrap, topic]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)

    written = said["written"]
    assert [(record[0], record[1]) for record in written[::3]] == [
        (api_version, codec) for api_version in API_VERSIONS for codec in (None, "gzip", "snappy", "lz4")
    ]
    assert [offset for _, _, offset, *_ in written] == list(range(len(written)))
    assert list(said["read"]) == API_VERSIONS
    for api_version, read in said["read"].items():
        # What an old producer could not say is -1, what an old consumer does not know is None.
        wanted = [
            [offset, (-1 if timestamp is None else timestamp) if api_version in WITH_TIMESTAMPS else None, key, value]
            for _, _, offset, timestamp, key, value in written
        ]
        assert read == {"records": wanted, "begin": 0, "end": len(written)}, api_version
