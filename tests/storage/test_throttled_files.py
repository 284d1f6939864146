from __future__ import annotations

import os
import pickle
from pathlib import Path

from minibroker.storage.files import APPEND, READ_ONLY, ThrottledFiles


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.now_s += delay_s


def test_reads_and_writes_share_the_rate(tmp_path: Path) -> None:
    time = Time()
    files = ThrottledFiles(1000, now_s=lambda: time.now_s, sleep=time.sleep)
    descriptor = files.open(str(tmp_path / "x"), APPEND)
    for _ in range(10):
        files.write(descriptor, b"x" * 100)
    assert time.now_s == 101.0
    time.now_s += 0.5  # who was busy elsewhere need not wait
    assert files.read_at(descriptor, 500, 0) == b"x" * 500
    assert time.now_s == 101.5
    assert files.read_at(descriptor, 500, 1000) == b""
    files.read_at(descriptor, 250, 0)
    assert time.now_s == 101.75
    os.close(descriptor)


def test_small_writes_do_not_sleep_each_time(tmp_path: Path) -> None:
    time = Time()
    files = ThrottledFiles(1000, now_s=lambda: time.now_s, sleep=time.sleep)
    descriptor = files.open(str(tmp_path / "x"), APPEND)
    for _ in range(100):
        files.write(descriptor, b"x")
    assert len(time.slept) in {4, 5}
    os.close(descriptor)


def test_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    files = pickle.loads(pickle.dumps(ThrottledFiles(1e9)))  # noqa: S301  our own bytes
    assert isinstance(files, ThrottledFiles)
    descriptor = files.open(str(tmp_path / "x"), READ_ONLY)
    assert files.read_at(descriptor, 3, 0) == b"abc"
    os.close(descriptor)
