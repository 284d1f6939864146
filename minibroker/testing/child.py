"""The child process of BrokerProcess: a hosted broker that is told what to do by lines of JSON on its standard input.

    {"do": "start", "options": {...}, "temporary": "/tmp/..."}   {"ports": [41234], "bootstrap_servers": "127.0.0.1:41234"}
    {"do": "execute", "command": "snapshot", "arguments": {}}    {"result": {"snapshot": "1"}}
    what fails                                                   {"error": "one line"}

Each has a "number", and its answer the same. What is temporary goes into a folder of who started us, who removes it when we were killed.
It stops in order when its input ends, so it never outlives who started it. Its log goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from typing import Any

from minibroker.server import garbage, logs
from minibroker.server.loop import run
from minibroker.testing.errors import BrokerError
from minibroker.testing.hosted import HostedBroker
from minibroker.testing.options import options_from_json


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
            asked = json.loads(line)
            answer = await self._answer(asked) | {"number": asked["number"]}
            print(json.dumps(answer), flush=True)  # noqa: T201  that is the protocol
        if self._hosted is not None:
            await self._hosted.stop()
            self._hosted.remove_data()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._hosted is None:
                tempfile.tempdir = asked["temporary"]
                self._hosted = HostedBroker(options_from_json(asked["options"]))
                await self._hosted.start()
                garbage.settle()
                return {"ports": self._hosted.ports, "bootstrap_servers": self._hosted.bootstrap_servers}
            return {"result": await self._hosted.lab.execute(asked["command"], asked["arguments"])}
        except Exception as error:  # noqa: BLE001  who asked raises it as an error of its own
            return {"error": str(error) if isinstance(error, BrokerError) else f"{type(error).__name__}: {error}"}


def main() -> None:
    """Serve until the input ends. Ctrl-C is for who started us."""
    os.setpgid(0, 0)
    garbage.put_off()
    logs.set_up()
    run(_Child().serve())


if __name__ == "__main__":
    main()
