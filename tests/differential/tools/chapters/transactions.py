"""TransactionsCommand, TransactionalMessageCopier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.clients.makes import IN_PROCESS
from tests.clients.transactional import Place, TransactionalProducer
from tests.differential.tools.transcript import Side

TOOL = "TransactionsCommand"
OWN = ("ProducerId", "TransactionDurationMs", "LastTimestamp")  #: columns with what a broker draws for itself
AT = ("--bootstrap-server", "@")


@contextmanager
def _open(side: Side, transactional_id: str, *places: Place) -> Iterator[TransactionalProducer]:
    producer = IN_PROCESS["confluent-kafka"].open(side.bootstrap, transactional_id)
    try:
        producer.begin()
        for place in places:
            producer.send(place, b"open")
        producer.flush()
        yield producer
    finally:
        producer.close()


def transactions(side: Side) -> None:
    side.run("TopicCommand", "--create", "--topic", "txn", "--partitions", 2)
    with _open(side, "tx-1", Place("txn", 0), Place("txn", 1)) as producer:
        side.run(TOOL, *AT, "list", free=OWN, ordered=False)
        side.run(TOOL, *AT, "list", "--duration-filter", "3600000", free=OWN)
        side.run(TOOL, *AT, "list", "--transactional-id-pattern", "tx-.*", free=OWN)
        side.run(TOOL, *AT, "list", "--transactional-id-pattern", "no", free=OWN)
        side.run(TOOL, *AT, "list", "--transactional-id-pattern", "(", free=OWN)
        side.run(TOOL, *AT, "describe", "--transactional-id", "tx-1", free=OWN)
        side.run(TOOL, *AT, "describe", "--transactional-id", "absent", free=OWN)
        side.run(TOOL, *AT, "describe-producers", "--topic", "txn", "--partition", "0", free=OWN)
        side.run(TOOL, *AT, "describe-producers", "--topic", "txn", "--partition", "0", "--broker-id", side.node_id, free=OWN)
        side.run(TOOL, *AT, "find-hanging", "--broker-id", side.node_id, free=OWN)
        side.run(TOOL, *AT, "find-hanging", "--topic", "txn", free=OWN)
        side.run(TOOL, *AT, "find-hanging", "--topic", "txn", "--partition", "1", "--max-transaction-timeout", "-1", free=OWN)
        side.run("GetOffsetShell", "--topic", "txn", ordered=False)
        side.run(TOOL, *AT, "abort", "--topic", "txn", "--partition", "0", "--start-offset", "7")
        producer.commit()
    side.until(lambda said: "CompleteCommit" in str(said.out), TOOL, *AT, "describe", "--transactional-id", "tx-1", free=OWN)
    side.run(TOOL, *AT, "list", "--transactional-id-pattern", "tx-1", free=OWN)
    side.run("GetOffsetShell", "--topic", "txn", ordered=False)
    with _open(side, "tx-2", Place("txn", 0)):
        side.run(TOOL, *AT, "forceTerminateTransaction", "--transactionalId", "tx-2")
        side.until(lambda said: "Empty" in str(said.out), TOOL, *AT, "describe", "--transactional-id", "tx-2", free=OWN)
    side.run(TOOL, *AT, "forceTerminateTransaction", "--transactionalId", "absent")
    with _open(side, "tx-3", Place("txn", 1)):
        side.run(TOOL, *AT, "abort", "--topic", "txn", "--partition", "1", "--start-offset", "2")
        side.until(
            lambda said: said.exit_code == 0, TOOL, *AT, "describe-producers", "--topic", "txn", "--partition", "1", free=OWN, ordered=False
        )
    words = ("--topic", "txn", "--partition", 0, "--offset", "earliest", "--timeout-ms", 15000)
    side.run("ConsoleConsumer", *words, "--isolation-level", "read_committed", "--max-messages", 1)
    side.run("ConsoleConsumer", *words, "--isolation-level", "read_uncommitted", "--max-messages", 2)


CHAPTERS = (transactions,)
