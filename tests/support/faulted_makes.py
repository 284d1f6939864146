"""The makes of clients that meet faults: Python's, and Java's where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from tests.clients.spoken_clients import java_client
from tests.support.fault_round import Clients, Read
from tests.support.fault_schedule import reader, sharer
from tests.support.faulted_java_readers import JavaReader, JavaReaders, JavaSharer
from tests.support.faulted_producers import AIOKafka, Confluent, Java, KafkaPython, Open
from tests.support.faulted_readers import READERS, Reader


@contextmanager
def all_makes() -> Iterator[Mapping[str, Clients]]:
    """For any number of rounds, one after the other: Java's two programs are started once."""
    writes: dict[str, Open] = {"kafka-python": KafkaPython, "aiokafka": AIOKafka, "confluent-kafka": Confluent}
    found = {make: Clients(write, {reader(make): partial(Reader, make)}) for make, write in writes.items() if make in READERS}
    with ExitStack() as stack:
        if shutil.which("java") is not None:
            producers = stack.enter_context(java_client("4.3.1", "told with each producer"))
            readers = stack.enter_context(JavaReaders())
            read: dict[str, Read] = {reader("java"): partial(JavaReader, readers, "consumer"), sharer("java"): partial(JavaSharer, readers)}
            found["java"] = Clients(partial(Java, producers), read)
        yield found
