"""`python -m orders_async -b HOST:PORT`: follows the events of orders until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from contextlib import suppress

from orders_async.tracker import Tracker


async def main() -> None:
    """SIGTERM and Ctrl-C end it in order: it leaves its group."""
    parser = argparse.ArgumentParser(prog="python -m orders_async", description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"))
    parser.add_argument("--name", default="tracker", help="client.id, seen in the cluster's logs")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    async with Tracker(given.bootstrap_servers, name=given.name) as tracker:
        running = asyncio.create_task(tracker.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        with suppress(asyncio.CancelledError):
            await running


if __name__ == "__main__":
    asyncio.run(main())
