"""Acknowledgements: whether a member may acknowledge records, and their next states.

    type        of an acquired record                                                of other records
    0 gap       archived: there is no such record                                    INVALID_RECORD_STATE
    1 accept    acknowledged                                                         INVALID_RECORD_STATE
    2 release   available; archived after the last allowed delivery                  INVALID_RECORD_STATE
    3 reject    archived                                                             INVALID_RECORD_STATE
    4 renew     its lock starts again, if the group allows that                      INVALID_RECORD_STATE

A request is applied as a whole or not at all. Offsets below the start offset are skipped, because
they are done. Offsets beyond those in flight are INVALID_REQUEST.

Source: SharePartition.acknowledge of Apache Kafka 4.3.1, with its messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from minibroker.coordinator.share_partition.in_flight import NO_MEMBER, InFlightBatch, InFlightRecords, Run
from minibroker.coordinator.share_state.records import RecordState
from minibroker.errors import InvalidRecordState, InvalidRequest

RELEASE: Final = 2
RENEW: Final = 4

_BECOMES: Final = {
    0: RecordState.ARCHIVED,
    1: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    3: RecordState.ARCHIVED,
    RENEW: RecordState.ACQUIRED,
}


class Acknowledgement(NamedTuple):
    """A range of offsets, with one type for all or one for each."""

    first_offset: int
    last_offset: int  #: inclusive
    types: Sequence[int]

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Return the first and last offset of neighbors with the same type, and the type."""
        if len(self.types) == 1:
            yield self.first_offset, self.last_offset, self.types[0]
            return
        first = self.first_offset
        for index, each in enumerate(self.types):
            offset = self.first_offset + index
            if offset == self.last_offset or self.types[index + 1] != each:
                yield first, offset, each
                first = offset + 1

    def clipped(self, first_offset: int, last_offset: int) -> Acknowledgement:
        """Return the part within a range of offsets that overlaps it."""
        first, last = max(self.first_offset, first_offset), min(self.last_offset, last_offset)
        types = self.types if len(self.types) == 1 else self.types[first - self.first_offset : last - self.first_offset + 1]
        return Acknowledgement(first, last, types)


Change = tuple[Run, RecordState]  #: an acquired run and its next state


class Plan(NamedTuple):
    """The changes to persist, and the runs whose locks are renewed."""

    changes: list[Change]
    renewed: list[Run]


def released_state(run: Run, delivery_count_limit: int) -> RecordState:
    """Return the next state of records that a member acquired and did not acknowledge."""
    return RecordState.ARCHIVED if run.delivery_count >= delivery_count_limit else RecordState.AVAILABLE


class Acknowledging:
    """One request of one member."""

    def __init__(self, records: InFlightRecords, member_id: str, *, delivery_count_limit: int, may_renew: bool) -> None:
        self._records = records
        self._member_id = member_id
        self._delivery_count_limit = delivery_count_limit
        self._may_renew = may_renew
        self._plan = Plan([], [])

    def plan(self, acknowledgements: Sequence[Acknowledgement]) -> Plan:
        """Plan the changes; InvalidRecordState, InvalidRequest.

        `acknowledgements` are in order, with one type or one for each offset.
        """
        last_offset = -1
        for each in acknowledgements:
            if not _BECOMES.keys() >= set(each.types):
                raise InvalidRequest(f"Invalid acknowledge type: [{', '.join(map(str, each.types))}]")
            if each.last_offset >= self._records.start_offset:
                if each.first_offset <= last_offset:
                    raise InvalidRecordState("The offset cannot be acknowledged. The offset is not acquired.")
                for batch in self._batches(each):
                    self._plan_batch(batch, each)
            last_offset = each.last_offset
        return self._plan

    def _batches(self, acknowledgement: Acknowledgement) -> Sequence[InFlightBatch]:
        records = self._records
        if acknowledgement.first_offset < records.start_offset:
            acknowledgement = acknowledgement._replace(first_offset=records.start_offset)
        elif not records.batches or acknowledgement.first_offset < records.batches[0].first_offset:
            raise InvalidRecordState("Batch record not found. The request batch offsets are not found in the cache.")
        found = records.overlapping(acknowledgement.first_offset, acknowledgement.last_offset)
        if not found:
            raise InvalidRequest("Batch record not found. The first offset in request is past acquired records.")
        if found[-1].last_offset < acknowledgement.last_offset:
            raise InvalidRequest("Batch record not found. The last offset in request is past acquired records.")
        return found

    def _plan_batch(self, batch: InFlightBatch, acknowledgement: Acknowledgement) -> None:
        if not batch.is_divided:
            owner = batch.runs[0].member_id
            if owner == NO_MEMBER:
                raise InvalidRecordState("The batch cannot be acknowledged. The batch is not in the acquired state.")
            if owner != self._member_id:
                raise InvalidRecordState("Member is not the owner of batch record")
            is_all = acknowledgement.first_offset <= batch.first_offset and batch.last_offset <= acknowledgement.last_offset
            batch.is_divided = not is_all or len(acknowledgement.types) > 1
        for first_offset, last_offset, kind in acknowledgement.clipped(batch.first_offset, batch.last_offset).ranges():
            for run in batch.within(first_offset, last_offset):
                self._plan_run(run, kind)

    def _plan_run(self, run: Run, kind: int) -> None:
        if run.state is not RecordState.ACQUIRED:
            raise InvalidRecordState("The offset cannot be acknowledged. The offset is not acquired.")
        if run.member_id != self._member_id:
            raise InvalidRecordState("Member is not the owner of offset")
        if kind == RENEW:
            if not self._may_renew:
                raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
            self._plan.renewed.append(run)
            return
        state = released_state(run, self._delivery_count_limit) if kind == RELEASE else _BECOMES[kind]
        self._plan.changes.append((run, state))
