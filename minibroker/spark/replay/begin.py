"""Begin a run of a replay: end open transactions of earlier runs, read their progress, enter the run in the ledger.

Invariant: once a run is in the ledger, no task of an earlier run begins a transaction. If a transaction is open at that
moment, the task of this run that takes over its partition ends it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from minibroker.client.client import Client
from minibroker.client.own_transaction import OwnTransaction
from minibroker.client.routing import TopicPartition
from minibroker.client.topics import topic_id_of
from minibroker.client.transactions import OPEN_STATES, list_transactions
from minibroker.errors import InvalidProducerEpoch, ProducerFenced, UnknownTopicOrPartition
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.ledger import LEDGER_PARTITION, RUN, Ledger, Run, check_name, group_of, ledger_of, transactional_id
from minibroker.spark.replay.sender import BatchSender
from minibroker.spark.replay.targets import ensure_topic
from minibroker.spark.replay.writer import committed, packed_value

TIMEOUT_MS = 60_000  #: of the driver's transactions
#: no record is ever deleted, and timestamps do not depend on executors' clocks
LEDGER_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime"}


@dataclass(slots=True)
class Beginning:
    """The state of a replay before the current run is in the ledger."""

    name: str
    transaction: OwnTransaction
    ledger: Ledger = field(default_factory=Ledger)
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)  #: old offsets by target partition
    written: dict[TopicPartition, int] = field(default_factory=dict)  #: records by target partition

    @property
    def last_run(self) -> Run | None:
        """The last run in the ledger; None if there is none."""
        return self.ledger.runs[-1] if self.ledger.runs else None

    def sources(self) -> dict[str, str]:
        """Return the source topic of each target topic that was written to."""
        return {key[0]: each.source[0] for written in self.ledger.by_run.values() for key, each in written.items()}


def look(client: Client, name: str) -> Beginning:
    """Fence other drivers of this replay, end open transactions of its tasks, and read its ledger; the first run creates it."""
    check_name(name)
    beginning = Beginning(name, OwnTransaction(client, transactional_id(name), timeout_ms=TIMEOUT_MS))
    try:
        client.topic(ledger_of(name))
    except UnknownTopicOrPartition:
        ensure_topic(client, ledger_of(name), 1, LEDGER_CONFIGS)
    prefix = transactional_id(name)
    for each in list_transactions(client, states=OPEN_STATES):
        if each.transactional_id.startswith(prefix):
            OwnTransaction(client, each.transactional_id, timeout_ms=TIMEOUT_MS)  # aborts it
    offsets = committed(client, name)  # before the ledger, which then has all commits that these offsets show
    beginning.ledger.read_on(client, ledger_of(name))
    beginning.written = beginning.ledger.totals()
    beginning.next_offsets = beginning.ledger.next_offsets()
    for key, (offset, _) in offsets.items():
        if key[0] != ledger_of(name):
            beginning.next_offsets[key] = max(offset, beginning.next_offsets.get(key, 0))
    return beginning


def check_same(beginning: Beginning, source: str, selection: Mapping[str, str], *, is_resumable: bool) -> None:
    """Raise ReplayError if this run would not continue earlier runs of the name."""
    last = beginning.last_run
    if last is None:
        return
    elsewhere = f"take another name, or delete the topic and the group {ledger_of(beginning.name)} to start again"
    for what, before, now in (("the source", last.source, source), *_differences(last.selection, selection)):
        if before != now:
            raise ReplayError(f"replay {beginning.name} was started with {what} {before or 'unset'}, not {now or 'unset'}: {elsewhere}")
    if beginning.next_offsets and not (is_resumable and last.resumable):
        raise ReplayError(
            f"replay {beginning.name} has written records already, and without offsets in the source it cannot know which: {elsewhere};"
            " a column to order by makes a replay resumable"
        )


def check_sources(beginning: Beginning, topic_ids: Mapping[str, str]) -> None:
    """Raise ReplayError if a source topic was recreated since earlier runs: its offsets do not show which records are done."""
    before = {name: topic_id for run in beginning.ledger.runs for name, topic_id in run.sources.items() if topic_id}
    for name in sorted(set(beginning.sources().values())):
        earlier, found = before.get(name, ""), topic_ids.get(name, "")
        if earlier and found and earlier != found:
            raise ReplayError(
                f"replay {beginning.name} has replayed records of a topic {name} that was deleted and recreated since (it was {earlier}, "
                f"the source has {found}): take another name to replay the new one"
            )


def check_topics(client: Client, beginning: Beginning) -> None:
    """Raise ReplayError if a topic that earlier runs wrote to was deleted or recreated."""
    before = {name: topic_id for run in beginning.ledger.runs for name, topic_id in run.topics.items() if topic_id}
    if not before:
        return
    for topic in client.metadata(list(before)).topics:
        found = topic_id_of(topic)
        if found != before[str(topic.name)]:
            became = f"and recreated (it was {before[str(topic.name)]} and is {found}) " if found else ""
            raise ReplayError(
                f"topic {topic.name} was deleted {became}since replay {beginning.name} wrote to it: take another name to replay everything"
            )


def enter(client: Client, beginning: Beginning, run: Run) -> None:
    """Enter the run in the ledger; tasks of earlier runs stop from now on."""
    ledger = ledger_of(beginning.name)
    sender = BatchSender(client, beginning.transaction, {})
    try:
        sender.send((ledger, LEDGER_PARTITION), packed_value(RUN, run.value()), lambda _: None)
        beginning.transaction.commit_offsets(group_of(beginning.name), {(ledger, LEDGER_PARTITION): (run.run, run.id)})
        beginning.transaction.end(committed=True)
    except (ProducerFenced, InvalidProducerEpoch) as error:
        raise ReplayError(f"another run of replay {beginning.name} started at the same time: only one can continue") from error


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(name, before.get(name, ""), now.get(name, "")) for name in sorted({*before, *now})]


def as_text(value: Mapping[str, object]) -> str:
    """Return a mapping as text for `selection`; "" for an empty one."""
    return json.dumps(dict(sorted(value.items()))) if value else ""
