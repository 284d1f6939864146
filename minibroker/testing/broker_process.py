"""A broker in its own process: for tests that kill it, or that must not share their interpreter with it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from minibroker.testing.data import Snapshot, TemporaryData
from minibroker.testing.options import MEMORY, BrokerError, BrokerOptions, DataDir, Setting, options_to_json
from minibroker.testing.request_log import RequestLog, from_json
from minibroker.testing.surface import Surface

if TYPE_CHECKING:
    from minibroker.registry.schema_files import Schemas

_STOP_TIMEOUT_S: Final = 20.0
_READ_SIZE: Final = 1 << 20
TIMEOUT_S: Final = 60.0  #: for any call to the process: beyond it the process hangs, or was stopped by a signal

#: The child gets the module path of this process.
_START: Final = "import sys; sys.path[:] = sys.argv.pop().split('\\n'); from minibroker.testing.child import main; main()"


class BrokerProcess(Surface):
    """A broker in its own process. It takes the arguments of BrokerThread.

    A test may kill it. With TEMPORARY or a folder, the next `start` finds the data again and
    listens on the same port. Data in memory and snapshots are lost with the process.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | Iterable[str] = (),
        config: Mapping[str, Setting] | None = None,
        data_dir: DataDir | str | os.PathLike[str] = MEMORY,
        port: int = 0,
        brokers: int = 1,
        racks: Iterable[str] = (),
        like_kafka: bool = False,
        users: Mapping[str, str] | None = None,
        super_users: Iterable[str] = (),
        acls: Iterable[str] = (),
        tls: bool = False,
        mtls: bool = False,
        schemas: Schemas | str | os.PathLike[str] | None = None,
    ) -> None:
        self._options = BrokerOptions(
            topics=topics, config=config, data_dir=data_dir, port=port, brokers=brokers, racks=racks, like_kafka=like_kafka,
            users=users, super_users=super_users, acls=acls, tls=tls, mtls=mtls, schemas=schemas,
        )  # fmt: skip
        self._access = self._options.access
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._lock = threading.Lock()  #: one call at a time
        self._call_count = 0  #: numbers calls, so that a late answer to an interrupted call is skipped
        self._unread = b""  #: output of the process after the last line that was read
        self._data: TemporaryData | None = None  #: kept here, so that it survives a process that is killed
        self._scratch: tempfile.TemporaryDirectory[str] | None = None  #: folder for temporary files of the process
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for any client's bootstrap.servers."""
        self._running()
        return self._bootstrap_servers

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._running().pid

    @property
    def data_dir(self) -> Path | None:
        """The folder of the data; None: in memory, or not started yet."""
        folder = self._options.data_dir
        return None if isinstance(folder, DataDir) else Path(folder)

    @property
    def output(self) -> str:
        """Everything that the process has logged since the first `start`: warnings and errors."""
        if self._stderr is None:
            return ""
        descriptor = self._stderr.fileno()  # pread leaves the position alone at which the process writes
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    @property
    def request_log(self) -> RequestLog:
        """See Surface."""
        return from_json(self._execute("requests", {})["rows"])

    def start(self) -> Self:
        """See Surface."""
        if self.is_running:
            raise BrokerError("the broker is already running")
        self.kill()  # clean up after a process that another program has killed
        if self._options.data_dir is DataDir.TEMPORARY:
            self._data = TemporaryData()
            self._options.data_dir = self._data.log_dir
        self._stderr = self._stderr or tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._scratch = tempfile.TemporaryDirectory(prefix="minibroker-", ignore_cleanup_errors=True)
        self._unread = b""
        self._process = subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-c", _START, "\n".join(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        try:
            started = self._request("start", options=options_to_json(self._options), temporary=self._scratch.name)
        except BaseException:
            self.kill()
            raise
        self._options.ports, self._bootstrap_servers = started["ports"], started["bootstrap_servers"]
        return self

    def stop(self) -> None:
        """See Surface."""
        process, self._process = self._process, None
        if process is not None:
            try:
                process.communicate(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        self._clean_up()

    def kill(self) -> None:
        """Kill the process, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        self._clean_up()

    def _clean_up(self) -> None:
        """Remove the temporary folder of the process, which a killed process leaves behind."""
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def close(self) -> None:
        """See Surface."""
        self.stop()
        if self._data is not None:
            self._data.close()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def snapshot(self) -> Snapshot:
        """See Surface."""
        return Snapshot(str(self._execute("snapshot", {})["snapshot"]), self._running())

    def restore(self, snapshot: Snapshot) -> None:
        """See Surface."""
        if snapshot.owner is not self._running():
            raise BrokerError("restore: this snapshot is of another broker, or of a process that is gone: take one of this broker")
        self._execute("restore", {"name": snapshot.copy})

    def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        return self._request("execute", command=name, arguments=arguments)["result"]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError("the broker is not running: use `with BrokerProcess() as broker:`, or start() it")
        return self._process

    def _request(self, action: str, **more: Any) -> dict[str, Any]:
        process = self._running()
        name = more.get("command", action)
        with self._lock:
            self._call_count += 1
            try:
                answer = self._answer(process, {"do": action, "number": self._call_count, **more})
            except TimeoutError as error:
                raise BrokerError(f"{name}: the broker's process did not answer within {TIMEOUT_S:g} s") from error
            except (OSError, EOFError) as error:
                last = self.output.strip().rpartition("\n")[2]
                raise BrokerError(f"{name}: the broker's process is gone{f': {last}' if last else ''}") from error
        if "error" in answer:
            raise BrokerError(answer["error"])
        return answer

    def _answer(self, process: subprocess.Popen[bytes], command: dict[str, Any]) -> dict[str, Any]:
        """Write a line, and read lines until its answer.

        A call that was interrupted has left its answer unread.
        """
        if process.stdin is None or process.stdout is None:
            raise EOFError
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        readable = select.poll()
        readable.register(process.stdout, select.POLLIN)
        while True:
            line, end, rest = self._unread.partition(b"\n")
            if end:
                self._unread = rest
                answer: dict[str, Any] = json.loads(line)
                if answer.pop("number") == command["number"]:
                    return answer
            elif not readable.poll(TIMEOUT_S * 1000):
                raise TimeoutError
            elif not (more := os.read(process.stdout.fileno(), _READ_SIZE)):
                raise EOFError
            else:
                self._unread += more
