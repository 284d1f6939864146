"""What we answer otherwise than Apache Kafka 4.3.1, on purpose, each with its reason. Everything else is a mistake of ours.

A rule is a pattern over one line of twins.differences (`.path: ours X, Kafka's Y`) and the API whose answer it is in; `when` narrows it by
the request. What both brokers draw for themselves (ids, ports, times of appending) is masked in twins.py, and what Kafka's hash maps
leave to chance (the order of topics) is sorted in run.py.

What the requests avoid, because one side does not answer or the two part ways for good:
- null records: Apache Kafka 4.3.1 never answers such a Produce; we say INVALID_RECORD.
- a sequence too low, or a zombie's, at the start of a transaction: Kafka's verification of that partition keeps it in mind, and refuses the
  owner's right one afterwards.
- WriteTxnMarkers with an epoch above the producer's: Kafka's coordinator cannot write its own marker then, and stays in Prepare* for ever.
- zstd for readers below Fetch 10: UNSUPPORTED_COMPRESSION_TYPE (KIP-110); Kafka 4 sends batches that these clients die on.
- Metadata for a topic with neither name nor id: INVALID_REQUEST; Kafka passes over it, or trips when there is no other.
- names to be created by Metadata: ours are there when it answers, Kafka's some time later.
- several partitions in a Produce of which one has a lie in its framing (length, magic): Kafka refuses all of them, we that one.
- producer ids that were never given out: UNKNOWN_PRODUCER_ID; Kafka takes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker.config.differences import BY_NAME
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k19_create_topics,
    k26_end_txn,
    k32_describe_configs,
    k33_alter_configs,
    k44_incremental_alter_configs,
)
from tests.differential.data import LIES_OF_FRAMING, Operation

CHANCE: Final = "chance"  #: what either broker draws, counts or orders for itself: no difference in behavior


class Rule(NamedTuple):
    """One difference that we stand by."""

    reason: str
    api_keys: tuple[int, ...]
    pattern: str
    when: Callable[[Operation], bool] = lambda _: True
    difference: str = ""  #: its name in minibroker/config/differences.py, or CHANCE


CONFIGS: Final = (k19_create_topics.API_KEY, k32_describe_configs.API_KEY)
ALTERING: Final = (k33_alter_configs.API_KEY, k44_incremental_alter_configs.API_KEY)

RULES: Final = (
    Rule("a number is kept without the blanks around it", CONFIGS, r"\.value: ours '7', Kafka's ' 7 '$", difference="blanks"),
    Rule(
        "why a batch was refused is said in words, Kafka leaves them out",
        (k00_produce.API_KEY,),
        r"error_message: ours 'words', Kafka's None$",
        difference="words",
    ),
    Rule(
        "where the log starts is told with a refusal; Kafka does not tell when it refuses before it looks at the log",
        (k00_produce.API_KEY,),
        r"log_start_offset: ours \d+, Kafka's -1$",
        difference="words",
    ),
    Rule(
        "a duplicate's log_append_time is told only where the topic has such times; Kafka tells the producer's own timestamp",
        (k00_produce.API_KEY,),
        r"log_append_time_ms: ours -1, Kafka's 'a time'$",
        difference="words",
    ),
    Rule(
        "of two things that are wrong, unknown partition and unreadable batch, we tell the first",
        (k00_produce.API_KEY,),
        r"error_code: ours (3|100), Kafka's 2$|error_message: ours None, Kafka's 'words'$",
        lambda operation: any(lie in operation.note for lie in LIES_OF_FRAMING),
        difference="first-of-two-errors",
    ),
    Rule(
        "read_committed: no aborted transactions is an empty list also when no batch fits into the limit; Kafka says null then",
        (k01_fetch.API_KEY,),
        r"aborted_transactions: ours \(0\) \[\], Kafka's None$",
        difference="aborted-transactions",
    ),
    Rule(
        "read_committed: the aborted transactions are those within the records; Kafka also tells of those up to its next index entry",
        (k01_fetch.API_KEY,),
        r"aborted_transactions: ours \((\d+)\) .*, Kafka's \((?!\1\))\d+\) \[",
        lambda operation: "'isolation_level': 1" in operation.note,
        difference="aborted-transactions",
    ),
    Rule(
        "an EndTxn 5 with the epoch before is no repetition of one that a client of version 1 sent; Kafka tells a zombie the next epoch",
        (k26_end_txn.API_KEY,),
        r"error_code: ours 90, Kafka's (0|48)$|producer_(id|epoch): ours -1, Kafka's",
        lambda operation: operation.version >= 5,
        difference="zombie-epoch",
    ),
    Rule(
        "a topic that was deleted under a session is an unknown id; Kafka remembers its name and says unknown topic",
        (k01_fetch.API_KEY,),
        r"error_code: ours 100, Kafka's 3$",
        difference="deleted-topics",
    ),
    Rule(
        "the largest timestamp is looked for above the log start; Kafka also finds deleted records",
        (k02_list_offsets.API_KEY,),
        r"\.(timestamp|offset): ours",
        lambda operation: "timestamp=-3" in operation.note,
        difference="timestamps-below-the-log-start",
    ),
    Rule(
        "where the first segment that has a record so late has it below the log start, we look into the next one; Kafka gives up",
        (k02_list_offsets.API_KEY,),
        r"\.(timestamp|offset): ours [^,]*, Kafka's -1$",
        lambda operation: operation.note.startswith("behind the log start "),
        difference="timestamps-below-the-log-start",
    ),
    Rule(
        "of two things that are wrong, unknown topic and invalid config, we tell the first",
        ALTERING,
        r"error_code: ours (3|17), Kafka's (40|42|-1)$",
        difference="first-of-two-errors",
    ),
    Rule(
        "an unknown operation is INVALID_REQUEST; Kafka trips over it",
        ALTERING,
        r"error_code: ours 42, Kafka's -1$|error_message: ours 'words', Kafka's None$",
        lambda operation: "config_operation=9" in operation.note,
        difference="kafka-trips",
    ),
    Rule(
        "a negative producer epoch is older than any, INVALID_PRODUCER_EPOCH; Kafka trips over it",
        (k00_produce.API_KEY,),
        r"error_code: ours 47, Kafka's -1$",
        lambda operation: "epoch -1" in operation.note,
        difference="kafka-trips",
    ),
    Rule(
        "of two things that are wrong, acks and a batch or partition, we tell the first",
        (k00_produce.API_KEY,),
        r"error_code: ours 21, Kafka's \d+$|error_message: ours None, Kafka's 'words'$",
        lambda operation: re.match(r"acks (2|-2) ", operation.note) is not None,
        difference="first-of-two-errors",
    ),
    Rule(
        "Kafka counts the part of a batch that it cuts off at a limit, we leave it out and have room for whole ones of the next partition",
        (k01_fetch.API_KEY,),
        r"records: ours \([1-9]\d*\) .*, Kafka's \(\d+\) \[|aborted_transactions: ours \(\d+\) .*, Kafka's None$",
        lambda operation: "'max_bytes': 52428800" not in operation.note,
        difference="whole-batches",
    ),
)


def holds(difference: str, *, like_kafka: bool) -> bool:
    """Whether a difference still exists: `minibroker.like.kafka` turns some off, and their rules must not be needed then."""
    return difference == CHANCE or not (like_kafka and BY_NAME[difference].is_switched)


def is_allowed(operation: Operation, difference: str, *, like_kafka: bool = False) -> bool:
    """Whether one of RULES covers a line of differences."""
    key = operation.schema.API_KEY
    return any(
        key in rule.api_keys
        and re.search(rule.pattern, difference)
        and rule.when(operation)
        and holds(rule.difference, like_kafka=like_kafka)
        for rule in RULES
    )
