"""CPU of requests with an authorizer and many access control lists, beside the same broker without one.

    .venv/bin/python benchmarks/authorization.py [--acls 1000] [--rounds 40]

The broker is in this process, without sockets, so that the shares are upper bounds: a request on a socket costs more in sum. Both brokers
take turns, and the least of the rounds counts. Instructions of Python are the same on every machine.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k12_heartbeat as k12
from tests.support.access import acl
from tests.support.authorized_requests import batch
from tests.support.broker_in_memory import BrokerInMemory, frame_of
from tests.support.opcodes import least_opcodes

TOPICS: Final = 10
REQUESTS: Final = 200  #: of each kind per round


def open_broker(folder: Path, acl_count: int) -> BrokerInMemory:
    """Return a broker with `acl_count` entries; none: without an authorizer."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER} if acl_count else {}
    topics = {f"orders-{number}": 1 for number in range(TOPICS)}
    broker = BrokerInMemory(topics=topics, folder=folder, config={**config, "offsets.topic.num.partitions": "1"})
    broker.connection.principal = "User:alice"
    broker.services.coordinators.groups.ensure_topic()
    if broker.services.acls is not None:
        lines = ["alice ALL TOPIC orders-*", "alice READ GROUP g"]
        lines += [f"user{number} READ TOPIC {'orders' if number % 2 else 'bills'}-{number}*" for number in range(acl_count - len(lines))]
        broker.services.acls.create(map(acl, lines))
    return broker


def requests() -> dict[str, tuple[Any, int]]:
    """Return the requests that are measured, each with its version."""
    names = [f"orders-{number}" for number in range(TOPICS)]
    data = batch()
    produce = [k00.Topic(name=names[0], partition_data=[k00.Partition(index=0, records=data)])]
    many = [k00.Topic(name=name, partition_data=[k00.Partition(index=0, records=data)]) for name in names]
    fetch = [k01.Topic(topic=name, partitions=[k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)]) for name in names[:1]]
    offsets = [k02.Topic(name=name, partitions=[k02.Partition(partition_index=0, timestamp=-1)]) for name in names]
    commits = [
        k08.Topic(name=name, partitions=[k08.Partition(partition_index=0, committed_offset=1, committed_metadata="")]) for name in names
    ]
    return {
        "Produce, 1 topic": (k00.Request(acks=1, timeout_ms=1, topic_data=produce), 9),
        "Produce, 10 topics": (k00.Request(acks=1, timeout_ms=1, topic_data=many), 9),
        "Fetch, 1 topic": (k01.Request(max_wait_ms=0, min_bytes=0, topics=fetch), 12),
        "ListOffsets, 10 topics": (k02.Request(replica_id=-1, topics=offsets), 9),
        "Metadata, 10 topics": (k03.Request(topics=[k03.Topic(name=name) for name in names], allow_auto_topic_creation=False), 12),
        "OffsetCommit, 10 topics": (k08.Request(group_id="g", member_id="", topics=commits), 9),
        "Heartbeat": (k12.Request(group_id="g", generation_id=1, member_id="m"), 4),
    }


def cost_us(broker: BrokerInMemory, frame: bytes, count: int = REQUESTS) -> float:
    """Return the CPU time of one request in microseconds."""
    dispatch, connection = broker.dispatcher.dispatch, broker.connection
    began = time.process_time()
    for _ in range(count):
        dispatch(connection, memoryview(bytearray(frame)))
    return (time.process_time() - began) / count * 1e6


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--acls", type=int, default=1000, help="number of access control lists")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        open_one, closed_one = (open_broker(Path(folder) / str(count), count) for count in (0, options.acls))
        gc.freeze()
        print(f"{'':<62}instructions of Python")
        print(f"{'request':<26}{'without, us':>12}{'with, us':>12}{'difference':>12}{'share':>8}{'without':>12}{'with':>8}{'share':>8}")
        for name, (request, version) in requests().items():
            frame = bytes(frame_of(request, version))
            costs = [(cost_us(open_one, frame), cost_us(closed_one, frame)) for _ in range(options.rounds)]
            without, with_acls = (min(each) for each in zip(*costs, strict=True))
            counts = [least_opcodes(partial(partial, cost_us, each, frame, 1)) for each in (open_one, closed_one)]
            instructions = f"{counts[0]:>12}{counts[1]:>8}{counts[1] / counts[0] - 1:>8.1%}"
            print(f"{name:<26}{without:>12.1f}{with_acls:>12.1f}{with_acls - without:>12.2f}{with_acls / without - 1:>8.1%}{instructions}")


if __name__ == "__main__":
    main()
