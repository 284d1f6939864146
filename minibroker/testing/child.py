"""The child process of BrokerProcess: a hosted broker that reads commands as lines of JSON from standard input.

    {"do": "start", "options": {...}, "temporary": "/tmp/..."}   {"ports": [41234], "bootstrap_servers": "127.0.0.1:41234"}
    {"do": "execute", "command": "snapshot", "arguments": {}}    {"result": {"snapshot": "1"}}
    a command that fails                                         {"error": "one line"}

An answer has the "number" of its command. Temporary files go into a folder of the parent, which
removes it if the child is killed. The child stops in order when its input ends, so that it never
outlives its parent. Its log goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from typing import Any

from minibroker.server import logs
from minibroker.server.loop import put_off_garbage_collection, run, settle_garbage_collection
from minibroker.testing.hosted import HostedBroker
from minibroker.testing.options import BrokerError, options_from_json


class _Child:
    def __init__(self) -> None:
        self._hosted: HostedBroker | None = None

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str] = asyncio.Queue()

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

        threading.Thread(target=read, daemon=True).start()
        while line := await lines.get():
            command = json.loads(line)
            answer = await self._answer(command) | {"number": command["number"]}
            print(json.dumps(answer), flush=True)  # noqa: T201  the protocol
        if self._hosted is not None:
            await self._hosted.stop()
            self._hosted.remove_data()

    async def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._hosted is None:
                tempfile.tempdir = command["temporary"]
                self._hosted = HostedBroker(options_from_json(command["options"]))
                await self._hosted.start()
                settle_garbage_collection()
                return {"ports": self._hosted.ports, "bootstrap_servers": self._hosted.bootstrap_servers}
            return {"result": await self._hosted.lab.execute(command["command"], command["arguments"])}
        except Exception as error:  # noqa: BLE001  the parent raises it
            return {"error": str(error) if isinstance(error, BrokerError) else f"{type(error).__name__}: {error}"}


def main() -> None:
    """Serve until standard input ends. Ctrl-C goes to the parent alone."""
    os.setpgid(0, 0)
    put_off_garbage_collection()
    logs.set_up()
    run(_Child().serve())


if __name__ == "__main__":
    main()
