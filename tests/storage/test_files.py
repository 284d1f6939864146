"""The pool of open files: never more than its capacity, and those that are used stay."""

from __future__ import annotations

import contextlib
import errno
import gc
from pathlib import Path

import pytest

from minibroker.storage.files import APPEND, READ_ONLY, RealFiles
from tests.support.faulty_files import FaultyFiles


def test_open_handles_stay_within_capacity(tmp_path: Path) -> None:
    files = FaultyFiles(max_open_files=3)
    handles = [files.handles.handle(str(tmp_path / str(index)), APPEND) for index in range(10)]
    for handle in handles * 3:
        files.write(handle.opened(), b"x")
        assert len(files.handles) <= 3
    assert files.most_descriptors == 3
    for handle in handles:
        handle.close()
        handle.close()
    assert not files._paths
    assert {(tmp_path / str(index)).read_bytes() for index in range(10)} == {b"xxx"}


def test_used_handle_gets_a_second_chance(tmp_path: Path) -> None:
    files = RealFiles(max_open_files=3)
    used, *others = [files.handles.handle(str(tmp_path / str(index)), APPEND) for index in range(8)]
    closed = []
    used.on_close = lambda: closed.append("used")
    others[0].on_close = lambda: closed.append("other")
    first = used.opened()
    for handle in others:
        handle.opened()
        handle.used = False
        used.used = True
    assert used.descriptor == first
    assert closed == ["other"]


def test_running_out_of_descriptors_closes_a_cached_one(tmp_path: Path) -> None:
    files = FaultyFiles(max_descriptors=2)
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    handles = [files.handles.handle(str(tmp_path / name), APPEND) for name in ("a", "b")]
    for handle in handles:
        handle.opened()
    descriptor = files.handles.open_path(str(tmp_path / "c"), READ_ONLY)
    assert [handle.descriptor < 0 for handle in handles].count(True) == 1
    other = files.handles.open_path(str(tmp_path / "c"), READ_ONLY)
    with pytest.raises(OSError, match="open files") as raised:
        files.handles.open_path(str(tmp_path / "c"), READ_ONLY)
    assert raised.value.errno == errno.EMFILE
    files.close(descriptor)
    files.close(other)


def test_duplicate_keeps_its_original_and_eventually_fails(tmp_path: Path) -> None:
    files = FaultyFiles()
    wanted, other = (files.handles.handle(str(tmp_path / name), APPEND) for name in ("a", "b"))
    first = wanted.opened()
    other.opened()
    files.fail("duplicate", errno.EMFILE)
    files.close(files.handles.duplicate(wanted))
    assert (wanted.descriptor, other.descriptor) == (first, -1)
    files.fail("duplicate", errno.EMFILE, times=1_000_000)
    with pytest.raises(OSError, match="open files"):
        files.handles.duplicate(wanted)
    assert wanted.descriptor == first
    wanted.close()


def test_missing_file_leaves_no_garbage_cycle(tmp_path: Path) -> None:
    """Only this look's own error is sought: threads that other tests have left behind make garbage meanwhile."""
    handles, absent = RealFiles(max_open_files=3).handles, str(tmp_path / "absent")

    def look() -> None:
        with contextlib.suppress(FileNotFoundError):
            handles.open_path(absent, READ_ONLY)

    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        look()
        gc.collect()
        assert not [left for left in gc.garbage if type(left) is FileNotFoundError and left.filename == absent]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
