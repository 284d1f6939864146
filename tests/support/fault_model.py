"""What may be read behind faults, by what producers were told: a plain model of exactly once.

of no transaction   acknowledged: there once, at the offset that was told. Not acknowledged: there once, or not at all.
                    What one producer wrote to a partition is there in the order in which it was sent; what was acknowledged, too,
                    whoever wrote it.
of a transaction    committed: all of it is there once. Aborted, or never to be committed: nothing. The answer to the commit is unknown:
                    all of it or nothing. In the order in which it was sent. Its group has the offset that it commits where its records
                    are there, and none where they are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tests.clients.transactional import Place

NO_OFFSET: Final = -1  #: acknowledged, and the client does not say where


class Outcome(Enum):
    """Of a transaction, as the application knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  #: it was to be committed, and nobody said whether it was


@dataclass(slots=True)
class Sent:
    """A record; its value is like no other's."""

    place: Place
    value: str
    instance: int  #: of the producer, counted
    offset: int | None = None  #: where it is acknowledged; NO_OFFSET; None: it is not


@dataclass(slots=True)
class Transaction:
    """What was sent in one."""

    outcome: Outcome
    records: list[Sent]
    group: str | None = None  #: of its own, for which it commits an offset, if it does
    committed_offset: int = 0
    commit_ms: tuple[int, int] = (0, 0)  #: epoch milliseconds from the call of commit to its return


@dataclass(slots=True)
class Model:
    """Of one make. Records and transactions are in the order in which they were sent."""

    make: str
    records: list[Sent] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)

    def complaints(self, visible: Mapping[Place, Sequence[tuple[int, str]]], committed: Mapping[str, int]) -> list[str]:
        """What is wrong with rows (offset, value) that read_committed sees, and with the offsets that groups have."""
        found = {value: offset for rows in visible.values() for offset, value in rows}
        counts = Counter(value for rows in visible.values() for _, value in rows)
        places = {value: place for place, rows in visible.items() for _, value in rows}
        everything = [*self.records, *(each for transaction in self.transactions for each in transaction.records)]
        said = [f"{value} is there {count} times" for value, count in counts.items() if count > 1]
        said += [f"{value} was never sent" for value in counts if value not in {each.value for each in everything}]
        said += [
            f"{each.value} is in {places[each.value]}, not in {each.place}"
            for each in everything
            if each.value in places and places[each.value] != each.place
        ]
        said += self._of_records(found)
        said += self._of_transactions(found, committed)
        return [f"{self.make}: {each}" for each in dict.fromkeys(said)]

    def _of_records(self, found: Mapping[str, int]) -> Iterable[str]:
        for each in self.records:
            if each.offset is not None and each.value not in found:
                yield f"{each.value} is lost: it was acknowledged at offset {each.offset} of {each.place}"
            elif each.offset not in {None, NO_OFFSET, found.get(each.value)}:
                yield f"{each.value} is at offset {found[each.value]} of {each.place}: it was acknowledged at {each.offset}"
        for instance in {each.instance for each in self.records}:
            yield from _disorder([each for each in self.records if each.instance == instance], found)
        yield from _disorder([each for each in self.records if each.offset is not None], found)

    def _of_transactions(self, found: Mapping[str, int], committed: Mapping[str, int]) -> Iterable[str]:
        for each in self.transactions:
            there = [record.value for record in each.records if record.value in found]
            wanted = len(each.records)
            if each.outcome is Outcome.COMMITTED and len(there) != wanted:
                yield f"of a committed transaction {len(there)} of {wanted} records are there: {each.records[0].value} ..."
            if each.outcome is Outcome.ABORTED and there:
                yield f"of an aborted transaction {len(there)} of {wanted} records are there: {there}"
            if each.outcome is Outcome.UNKNOWN and len(there) not in {0, wanted}:
                yield f"of a transaction {len(there)} of {wanted} records are there, which must be all or none: {there}"
            expected = each.committed_offset if there else None
            if each.group is not None and committed.get(each.group) != expected:
                yield f"the offset of {each.group} is {committed.get(each.group)}, and {expected} by the records of its transaction"
        yield from _disorder([record for each in self.transactions for record in each.records], found)


def _disorder(records: Sequence[Sent], found: Mapping[str, int]) -> Iterable[str]:
    last: dict[Place, Sent] = {}
    for each in records:
        if each.value not in found:
            continue
        before = last.get(each.place)
        if before is not None and found[before.value] >= found[each.value]:
            yield f"{each.value} is at offset {found[each.value]} of {each.place}, before {before.value} at {found[before.value]}"
        last[each.place] = each
