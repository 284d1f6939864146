"""States of a transactional id, and requests upon them, in words: what `observe_cells` asks Apache Kafka, and `test_cells` our machine.

A seed is a record of `__transaction_state` as a broker finds it at its start. A sequence is requests one after the other, each of them
  init IDS | add V IDS PARTITION | verify IDS PARTITION | end V commit|abort IDS
of the API version V, where IDS is `none`, `own` (as the seed has them), `own-1`, `own+1` (another epoch), `other` (another producer id),
`previous` (the previous producer id at its last epoch) or `current` (as DescribeTransactions tells them at that moment).

Markers are written behind each request, but never for a seed in Prepare*: there the question is what is answered meanwhile.

A request's outcome is the error code, and the ids that were answered. The end of a sequence is the record that was written last. Producer
ids are told by what they were in the seed (own, previous, next), and `new` when the broker drew them; the epoch of its own one as its
distance from the seed's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from minibroker.coordinator.transaction.records import MAX_EPOCH, ProducerIdAndEpoch, TransactionMetadata, TransactionState

OBSERVED: Final = Path(__file__).with_name("cells_kafka_4.3.1.json")
VERSIONS: Final = (2, 1, 0)  #: of transaction.version
TIMEOUT_MS: Final = 600_000
LAST_EPOCH: Final = MAX_EPOCH - 1  #: the last one that a client is told
OPEN: Final = ("open", 0)  #: the partition of a seed's transaction


Table = dict[tuple[int, str, str], list[str]]  #: by transaction.version, seed and sequence: the outcomes, and the record at the end


class Seed(NamedTuple):
    """What the log says of a transactional id."""

    state: TransactionState
    epoch: int
    client_version: int
    has_previous: bool = False  #: another producer id before
    has_next: bool = False  #: a new producer id to go over to

    def may_be_at(self, transaction_version: int) -> bool:
        """Whether a broker at that transaction.version can have written it."""
        return transaction_version > 0 or not (self.client_version or self.has_previous or self.has_next)

    def __str__(self) -> str:
        words = f"{self.state.kafka_name} {self.epoch} v{self.client_version}"
        return words + " after another id" * self.has_previous + " before another id" * self.has_next


def seeds() -> Iterator[Seed]:
    """Everything that a log may say, with epochs from the middle and from the end."""
    for state in TransactionState:
        if state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
            continue
        for client_version, epoch in product((0, 2), (5, LAST_EPOCH - 1, LAST_EPOCH)):
            yield Seed(state, epoch, client_version)
    for state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        for client_version in (0, 2):
            yield Seed(state, 0, client_version, has_previous=True)
    for state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        yield Seed(state, MAX_EPOCH, 2, has_next=True)
    for state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT):  # fenced at the last epoch
        for client_version in (0, 2):
            yield Seed(state, MAX_EPOCH, client_version)


SEQUENCES: Final = (
    "init none",
    *(f"init {ids}" for ids in ("own", "own-1", "own+1", "other", "previous")),
    *(f"add {version} {ids} open" for version in (3, 5) for ids in ("own", "own-1", "own+1", "other", "previous")),
    *(f"verify {ids} {partition}" for ids in ("own", "own-1", "other") for partition in ("open", "second")),
    *(
        f"end {version} {result} {ids}"
        for version, result, ids in product((4, 5), ("commit", "abort"), ("own", "own-1", "own+1", "other", "previous"))
    ),
    # retries
    "init own; init own",
    "init own; init none; init own",
    "init none; init own",
    "init none; init none",
    "init none; init none; init own",
    "init own; init own; init own",
    "init own; add 5 current open; init own",
    "end 5 abort own; init own",
    "end 5 commit own; init own",
    "end 5 commit own; init own; init own",
    "end 4 commit own; init own; init own",
    "init own; end 5 abort own",
    "init none; end 5 commit own",
    "init none; end 5 abort own",
    "init none; end 4 abort own",
    *(f"end 5 {first} own; end 5 {second} own" for first, second in product(("commit", "abort"), repeat=2)),
    *(f"end 4 {first} own; end 4 {second} own" for first, second in product(("commit", "abort"), repeat=2)),
    *(f"end 4 {first} own; end 5 {second} own" for first, second in product(("commit", "abort"), repeat=2)),
    *(f"end 5 {first} own; end 4 {second} current" for first, second in product(("commit", "abort"), repeat=2)),
    # the next transaction
    "end 5 commit own; add 5 own open",
    "end 5 commit own; add 5 current open; end 5 commit own",
    "end 5 abort own; add 5 current open; end 5 abort own; end 5 commit current",
    "add 3 own open; add 5 own second; end 5 commit own",
    "add 5 own open; add 3 own second; end 4 commit own",
    "add 3 own open; add 3 own open; verify own second",
    "add 5 own open; init none; init none; add 5 own open",
    "add 3 own open; init none; init own; end 5 commit own",
    "add 5 own open; end 5 commit own; init previous; init own",
)  # fmt: skip


class Ids:
    """The producer ids of one seed's transactional id; those of different seeds never meet."""

    def __init__(self, number: int, seed: Seed) -> None:
        self.seed = seed
        self.own = 10_000_000 + 10 * number
        self.previous = self.own - 1 if seed.has_previous else self.own
        self.next = self.own + 1 if seed.has_next else -1

    def named(self, producer_id: int) -> str:
        """In words."""
        if producer_id == -1:
            return "none"
        names = {self.next: "next", self.previous: "previous", self.own: "own"}
        return names.get(producer_id, "new")

    def of(self, word: str, current: Callable[[], ProducerIdAndEpoch]) -> ProducerIdAndEpoch:
        """What a request says."""
        match word:
            case "none":
                return ProducerIdAndEpoch(-1, -1)
            case "own" | "own-1" | "own+1":
                return ProducerIdAndEpoch(self.own, min(self.seed.epoch + int(word[3:] or 0), MAX_EPOCH))
            case "other":
                return ProducerIdAndEpoch(self.own + 5, self.seed.epoch)
            case "previous":
                return ProducerIdAndEpoch(self.own - 1, LAST_EPOCH)
            case "current":
                return current()
        raise ValueError(word)

    def both(self, producer_id: int, producer_epoch: int) -> str:
        """Producer id and epoch in words."""
        is_own = producer_id == self.own
        return f"own{producer_epoch - self.seed.epoch:+}" if is_own else f"{self.named(producer_id)}:{producer_epoch}"

    def answered(self, error_code: int, ids: tuple[int, int]) -> str:
        """An outcome."""
        return str(error_code) if ids == (-1, -1) else f"{error_code} {self.both(*ids)}"


def seeded(transactional_id: str, ids: Ids, now_ms: int) -> TransactionMetadata:
    """The record's content."""
    seed = ids.seed
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=ids.own,
        producer_epoch=seed.epoch,
        timeout_ms=TIMEOUT_MS,
        state=seed.state,
        last_update_timestamp_ms=now_ms,
        start_timestamp_ms=-1 if seed.state is TransactionState.EMPTY else now_ms,
        partitions=frozenset() if seed.state.is_idle else frozenset({OPEN}),
        previous_producer_id=ids.previous,
        next_producer_id=ids.next,
        client_transaction_version=seed.client_version,
    )


def told(ids: Ids, metadata: TransactionMetadata, seeded_at_ms: int) -> str:
    """A record in words."""
    if metadata._replace(previous_producer_id=ids.previous) == seeded(metadata.transactional_id, ids, seeded_at_ms):
        return "unchanged"
    start = {-1: "never", seeded_at_ms: "before"}.get(metadata.start_timestamp_ms, "now")
    words = f"{metadata.state.kafka_name} {ids.both(*metadata.ids)} v{metadata.client_transaction_version}"
    words += f" previous {ids.named(metadata.previous_producer_id)} next {ids.named(metadata.next_producer_id)} began {start}"
    return words + f" with {len(metadata.partitions)} partitions"


def write(table: Table) -> None:
    """Into OBSERVED: by sequence, then by outcomes, the numbers of the seeds behind each transaction.version."""
    names = [str(seed) for seed in seeds()]
    found: dict[str, dict[str, dict[int, list[int]]]] = {}
    for (version, seed, sequence), outcomes in table.items():
        found.setdefault(sequence, {}).setdefault(" | ".join(outcomes), {}).setdefault(version, []).append(names.index(seed))
    lines = [f"  {json.dumps(sequence)}: {_indented(outcomes)}" for sequence, outcomes in found.items()]
    words = ",\n".join(lines)
    OBSERVED.write_text(f'{{"seeds": {json.dumps(names)},\n "sequences": {{\n{words}\n}}}}\n')


def _indented(outcomes: dict[str, dict[int, list[int]]]) -> str:
    return "{\n" + ",\n".join(f"    {json.dumps(words)}: {json.dumps(where)}" for words, where in outcomes.items()) + "\n  }"


def read() -> Table:
    """What `write` wrote."""
    content = json.loads(OBSERVED.read_text())
    return {
        (int(version), content["seeds"][number], sequence): words.split(" | ")
        for sequence, outcomes in content["sequences"].items()
        for words, where in outcomes.items()
        for version, numbers in where.items()
        for number in numbers
    }
