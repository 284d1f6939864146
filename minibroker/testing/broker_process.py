"""A broker in a process of its own: for tests that kill it, and for those that need all of the test's process for themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Final, Self

from minibroker.testing.data import Snapshot, TemporaryData
from minibroker.testing.errors import BrokerError
from minibroker.testing.options import MEMORY, BrokerOptions, DataDir, Setting, options_to_json
from minibroker.testing.request_log import RequestLog, from_json
from minibroker.testing.surface import Surface

_STOP_TIMEOUT_S: Final = 20.0

#: Modules are found where this process finds them.
_START: Final = "import sys; sys.path[:] = sys.argv.pop().split('\\n'); from minibroker.testing.child import main; main()"


class BrokerProcess(Surface):
    """A broker in a process of its own; arguments are those of BrokerThread.

    It may be killed: with TEMPORARY or a folder it finds its data again at the next `start`, on the same port; in memory they are gone
    with every process, and snapshots are.
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
    ) -> None:
        self._options = BrokerOptions(topics=topics, config=config, data_dir=data_dir, port=port, brokers=brokers, racks=racks)
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[str] | None = None
        self._lock = threading.Lock()  #: one question at a time
        self._data: TemporaryData | None = None  #: ours, so that it outlives a process that is killed
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for any client's bootstrap.servers."""
        self._running()
        return self._bootstrap_servers

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._running().pid

    @property
    def data_dir(self) -> Path | None:
        """Where the data are; None: in memory, or nowhere yet."""
        folder = self._options.data_dir
        return None if isinstance(folder, DataDir) else Path(folder)

    @property
    def output(self) -> str:
        """What the process has logged since it was first started: warnings and errors."""
        if self._said is None:
            return ""
        self._said.seek(0)
        return self._said.read()

    @property
    def request_log(self) -> RequestLog:
        """See Surface."""
        return from_json(self._execute("requests", {})["rows"])

    def start(self) -> Self:
        """See Surface."""
        if self._process is not None and self._process.poll() is None:
            raise BrokerError("the broker runs already")
        if self._options.data_dir is DataDir.TEMPORARY:
            self._data = TemporaryData()
            self._options.data_dir = self._data.log_dir
        self._said = self._said or tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  closed by `close`
        self._process = subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-c", _START, "\n".join(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )
        try:
            started = self._ask("start", options=options_to_json(self._options))
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

    def kill(self) -> None:
        """End the process as a crash does, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def close(self) -> None:
        """See Surface."""
        self.stop()
        if self._data is not None:
            self._data.close()
        if self._said is not None:
            self._said.close()
            self._said = None

    def reset(self) -> None:
        """See Surface."""
        self._execute("reset", {})

    def snapshot(self) -> Snapshot:
        """See Surface."""
        return Snapshot(str(self._execute("snapshot", {})["snapshot"]))

    def restore(self, snapshot: Snapshot) -> None:
        """See Surface."""
        if not isinstance(snapshot.copy, str):
            raise BrokerError("restore: this snapshot is of another broker: take one of this broker")
        self._execute("restore", {"name": snapshot.copy})

    def advance(self, **time: float) -> None:
        """See Surface."""
        self._execute("advance", {"ms": timedelta(**time) / timedelta(milliseconds=1)})

    def _execute(self, command: str, arguments: dict[str, Any], /) -> Any:
        return self._ask("execute", command=command, arguments=arguments)["result"]

    # -- inside -----------------------------------------------------------------------------------------------------

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BrokerError("the broker is not running: use `with BrokerProcess() as broker:`, or start() it")
        return self._process

    def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        process = self._running()
        if process.stdin is None or process.stdout is None:
            raise BrokerError("the broker's process has no pipes")
        with self._lock:
            try:
                process.stdin.write(json.dumps({"do": what, **more}) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
        if not line:
            last = self.output.strip().rpartition("\n")[2]
            raise BrokerError(f"{more.get('command', what)}: the broker's process is gone{f': {last}' if last else ''}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BrokerError(answer["error"])
        return answer
