"""A slice says what the file held, whatever became of the file's name; it counts as one descriptor, for as long as it lives."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from minibroker.storage.file_slice import PIECE_SIZE, FileSlice
from minibroker.storage.files import APPEND, RealFiles
from tests.support.faulty_files import FaultyFiles


def test_bytes_of_the_slice(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = RealFiles()
    handle = files.handles.handle(str(tmp_path / "file"), APPEND)
    piece = FileSlice(files, handle, 2, 5)
    handle.close()
    (tmp_path / "file").unlink()
    assert (len(piece), bytes(piece)) == (5, b"23456")


def test_take_consumes_from_the_front(tmp_path: Path) -> None:
    data = bytes(range(256)) * 64
    (tmp_path / "file").write_bytes(data)
    files = RealFiles()
    piece = FileSlice(files, files.handles.handle(str(tmp_path / "file"), APPEND), 100, 10_000)
    taken = [piece.take(), piece.take()]
    assert list(map(len, taken)) == [PIECE_SIZE, PIECE_SIZE]
    assert len(piece) == 10_000 - 2 * PIECE_SIZE
    assert b"".join([*taken, piece.take()]) == data[100:10_100]
    assert not len(piece)


def test_send_to_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = RealFiles()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        piece = FileSlice(files, files.handles.handle(str(tmp_path / "file"), APPEND), 2, 5)
        assert piece.send_to(ours.fileno()) == 5
        assert len(piece) == 0
        assert not piece.must_be_read
        assert theirs.recv(100) == b"23456"
        piece = FileSlice(files, files.handles.handle(str(tmp_path / "file"), APPEND), 2, 5)
        theirs.close()
        assert piece.send_to(ours.fileno()) == 0
        assert len(piece) == 5
        assert piece.must_be_read


def test_full_socket_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10_000_000))
    files = RealFiles()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        piece = FileSlice(files, files.handles.handle(str(tmp_path / "file"), APPEND), 0, 10_000_000)
        while piece.send_to(ours.fileno()):
            assert not piece.must_be_read
        assert 0 < len(piece) < 10_000_000
        assert not piece.must_be_read
        (tmp_path / "file").write_bytes(b"")
        assert theirs.recv(5_000_000)
        while piece.send_to(ours.fileno()):
            assert not piece.must_be_read
        assert piece.must_be_read


def test_read_error_is_raised(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = FaultyFiles()
    piece = FileSlice(files, files.handles.handle(str(tmp_path / "file"), APPEND), 0, 10)
    files.fail("read_at", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        bytes(piece)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = RealFiles()
    handle = files.handles.handle(str(tmp_path / "file"), APPEND)
    piece = FileSlice(files, handle, 5, 5)
    (tmp_path / "file").write_bytes(b"012345678")
    with pytest.raises(OSError, match="shorter"):
        bytes(piece)
    with pytest.raises(OSError, match="shorter"):
        FileSlice(files, handle, 5, 5)


@pytest.mark.parametrize("succeeding", [0, 1])
def test_disk_failure_is_found_before_sending(tmp_path: Path, succeeding: int) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = FaultyFiles()
    handle = files.handles.handle(str(tmp_path / "file"), APPEND)
    files.fail("read_at", errno.EIO, after=succeeding)
    with pytest.raises(OSError, match="Input/output"):
        FileSlice(files, handle, 0, 10)
    assert open_descriptors(tmp_path / "file") == 1


def test_descriptor_is_closed_with_the_slice(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = RealFiles()
    handle = files.handles.handle(str(tmp_path / "file"), APPEND)
    piece = FileSlice(files, handle, 0, 10)
    handle.close()
    assert open_descriptors(tmp_path / "file") == 1
    del piece
    assert open_descriptors(tmp_path / "file") == 0


def open_descriptors(path: Path) -> int:
    return sum(link.resolve() == path for link in Path("/proc/self/fd").iterdir())
