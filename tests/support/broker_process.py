"""`minibroker serve` as a child process: started on a free port, stopped, killed, and started again on the same port."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.child_process import ChildProcess
from tests.support.ports import free_port

ADDRESS = re.compile(r"(127\.0\.0\.1|localhost):(\d+)")
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


class BrokerProcess:
    """A broker with its data in `folder`/data and its output in `folder`/out.txt. It is ready when the constructor returns.

    Args:
        folder: where its files go; use pytest's tmp_path.
        *arguments: more of `minibroker serve`, such as "--set", "num.partitions=3".
        port: a fixed one; 0 takes a free one, kept across restarts; -1 leaves the listeners to the arguments.
        log_dirs: several directories instead of `folder`/data.
        prefix: a command that starts the broker by `exec` of its arguments.
    """

    def __init__(self, folder: Path, *arguments: str, port: int = 0, log_dirs: Sequence[Path] = (), prefix: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self._log_dirs = ",".join(map(str, log_dirs)) or str(self.data_dir)
        self.port = port or (0 if "--brokers" in arguments else free_port())  # several brokers take a port each
        self._arguments = arguments
        self._prefix = prefix
        self._output = folder / "out.txt"
        self._process: ChildProcess | None = None
        self.start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def bootstrap_of(self, listener: str) -> str:
        """Return HOST:PORT of a listener, by its name."""
        line = next(line for line in self.output.splitlines() if "ready" in line)
        return next(each for each in line.replace(",", " ").split() if each.startswith(f"{listener}://")).partition("://")[2]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output_path(self) -> Path:
        """The file with its output and its log."""
        return self._output

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.is_alive

    @property
    def output(self) -> str:
        """Its output and its log since its last start."""
        return self._output.read_text(errors="replace")

    def start(self) -> None:
        self._spawn()
        self._wait_until_ready()

    def start_and_kill(self, after_s: float) -> None:
        """Start and SIGKILL `after_s` seconds later, ready or not."""
        self._spawn()
        time.sleep(after_s)
        self.kill()

    def _spawn(self) -> None:
        command = [sys.executable, "-m", "minibroker", "serve", "--data-dir", self._log_dirs]
        if self.port >= 0:
            command += ["--port", str(self.port)]
        self._process = ChildProcess([*self._prefix, *command, *self._arguments], self._output)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            found = ADDRESS.search(self.output)
            if found and self._answers(int(found[2])):
                self.port = int(found[2])
                return
            assert self._process is not None
            assert self._process.is_alive, f"serve ended:\n{self.output}"
            time.sleep(0.01)
        self.kill()
        raise AssertionError(f"not ready within {READY_TIMEOUT_S} s:\n{self.output}")

    @staticmethod
    def _answers(port: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit code."""
        assert self._process is not None
        return self._process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """Send SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()

    def restart(self) -> None:
        """Start again on the same folder and port, after `kill` or `stop`."""
        self.start()

    def resident_bytes(self) -> int:
        """Return its resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * 4096

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
