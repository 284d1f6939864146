"""The child process of BrokerProcess: a hosted broker that is told what to do by lines of JSON on its standard input.

    {"do": "start", "options": {...}}    {"port": 41234, "bootstrap_servers": "127.0.0.1:41234"}
    {"do": "reset"}                      {}
    {"do": "snapshot"}                   {"snapshot": 1}
    {"do": "restore", "snapshot": 1}     {}
    {"do": "advance", "ms": 1000}        {}
    {"do": "request_log"}                {"rows": [...]}
    what fails                           {"error": "one line"}

It stops in order when its input ends, so it never outlives who started it. Its log goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from datetime import timedelta
from typing import Any

from minibroker.server import garbage, logs
from minibroker.server.loop import run
from minibroker.testing.data import Snapshot
from minibroker.testing.errors import BrokerError
from minibroker.testing.hosted import HostedBroker
from minibroker.testing.options import BrokerOptions, DataDir
from minibroker.testing.request_log import to_json


class _Child:
    def __init__(self) -> None:
        self._hosted: HostedBroker | None = None
        self._snapshots: dict[int, Snapshot] = {}

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str] = asyncio.Queue()

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")

        threading.Thread(target=read, daemon=True).start()
        while line := await lines.get():
            print(json.dumps(await self._answer(json.loads(line))), flush=True)  # noqa: T201  that is the protocol
        if self._hosted is not None:
            await self._hosted.stop()
            self._hosted.remove_data()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._hosted is None:
                self._hosted = HostedBroker(options_from_json(asked["options"]))
                await self._hosted.start()
                garbage.settle()
                return {"port": self._hosted.port, "bootstrap_servers": self._hosted.bootstrap_servers}
            if asked["do"] == "advance":
                await self._hosted.advance(timedelta(milliseconds=asked["ms"]))
                return {}
            return self._do(self._hosted, asked)
        except Exception as error:  # noqa: BLE001  who asked raises it as an error of its own
            return {"error": str(error) if isinstance(error, BrokerError) else f"{type(error).__name__}: {error}"}

    def _do(self, hosted: HostedBroker, asked: dict[str, Any]) -> dict[str, Any]:
        match asked["do"]:
            case "reset":
                hosted.reset()
            case "snapshot":
                number = len(self._snapshots) + 1
                self._snapshots[number] = hosted.snapshot()
                return {"snapshot": number}
            case "restore":
                hosted.restore(self._snapshots[asked["snapshot"]])
            case "request_log":
                return {"rows": to_json(hosted.request_log)}
        return {}


def options_to_json(options: BrokerOptions) -> dict[str, Any]:
    """For the child."""
    data_dir = options.data_dir.value if isinstance(options.data_dir, DataDir) else None
    return {
        "topics": options.topics,
        "config": options.config,
        "port": options.port,
        "data_dir": data_dir,
        "folder": None if data_dir else options.data_dir,
    }


def options_from_json(found: dict[str, Any]) -> BrokerOptions:
    """What `options_to_json` made."""
    return BrokerOptions(
        topics=found["topics"],
        config=found["config"],
        port=found["port"],
        data_dir=DataDir(found["data_dir"]) if found["data_dir"] else found["folder"],
    )


def main() -> None:
    """Serve until the input ends. Ctrl-C is for who started us."""
    os.setpgid(0, 0)
    garbage.put_off()
    logs.set_up()
    run(_Child().serve())


if __name__ == "__main__":
    main()
