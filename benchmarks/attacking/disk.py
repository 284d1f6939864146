"""A disk that can be made to fail: an ext4 file system in a file, on a loop device. It needs root.

The kernel remounts it read-only at its first error. The mount is in a namespace of the broker's own, so it goes when the broker does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from peers import Unavailable

_SIZE = 256 << 20
_MOUNT = 'mount -o errors=remount-ro "$0" "$1" && shift && exec "$@"'


class Disk:
    """One loop device. Call `close` after the broker has stopped."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() or not Path("/dev/loop-control").exists() or not shutil.which("mkfs.ext4"):
            raise Unavailable("needs root, loop devices and mkfs.ext4")
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(_SIZE)
        self.mounted = folder / "disk"
        self.mounted.mkdir()
        _run("mkfs.ext4", "-q", str(image))
        self._device = _run("losetup", "-f", "--show", str(image))

    @property
    def prefix(self) -> list[str]:
        """The words in front of the broker's command, which mount the disk."""
        return ["unshare", "-m", "sh", "-c", _MOUNT, self._device, str(self.mounted)]

    def remount(self, pid: int) -> str:
        """Ask the kernel to remount it read-only, as an administrator would, and return the complaint."""
        words = ["nsenter", "-m", "-t", str(pid), "mount", "-o", "remount,ro", str(self.mounted)]
        return subprocess.run(words, capture_output=True, text=True, check=False).stderr.partition("\n")[0]

    def fail(self) -> None:
        """Report an error of the file system, for which the kernel remounts it read-only at once."""
        Path("/sys/fs/ext4", Path(self._device).name, "trigger_fs_error").write_text("1")

    def close(self) -> None:
        """Give the loop device back."""
        subprocess.run(["losetup", "-d", self._device], check=False)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
