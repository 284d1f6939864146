"""`python -m orders_sync -b HOST:PORT --name NAME`: a worker that ships orders until it is told to end."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys

from orders_sync.prices import read_prices
from orders_sync.shipping import Replaced, Shipping

log = logging.getLogger("orders_sync")


def main() -> int:
    """Read the prices, then ship; SIGTERM and Ctrl-C end it between two transactions. 1: another worker has this one's name."""
    parser = argparse.ArgumentParser(prog="python -m orders_sync", description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"))
    parser.add_argument("--name", default="1", help="the worker's own, the same again when it starts again")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    is_told_to_end = False

    def end(*_: object) -> None:
        nonlocal is_told_to_end
        is_told_to_end = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        with Shipping(given.bootstrap_servers, name=given.name, prices=read_prices(given.bootstrap_servers)) as worker:
            while not is_told_to_end:
                done = worker.step()
                if done:
                    log.info("%s orders", done)
    except Replaced as reason:
        log.error("%s: %s", given.name, reason)  # noqa: TRY400  no trace: nothing is wrong here
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
