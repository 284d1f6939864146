"""Read a Fetch of many partitions, and build its response, in slices."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from minibroker.cluster.nodes import Nodes
from minibroker.cluster.partition import Partition, Subscribers
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Watchable
from minibroker.dispatch.pieces import MergedResponse, Pieces
from minibroker.dispatch.slices import Steps
from minibroker.errors import KafkaError
from minibroker.handlers.fetch.reading import NO_EPOCH, FetchReading
from minibroker.handlers.fetch.session import NO_SESSION, STEP, FetchContext, PartitionAnswer, RequestedPartition
from minibroker.log.old_readers import LongConversion
from minibroker.schemas import k01_fetch as schema

_ANSWER: Final = Pieces("topics.partitions", "responses.partitions")  #: where the results of partitions are


class FetchReadingInSlices:
    """Serves a Fetch of many partitions like `FetchReading`, with pauses.

    It subscribes to partitions before it reads them again, so that it misses no move during a
    pause.
    """

    def __init__(self, ctx: RequestContext, request: schema.Request, context: FetchContext) -> None:
        self._reading = FetchReading(ctx, request, context, opened_max=sys.maxsize)  # `_open` opens logs, with pauses
        self._has_moved = False  #: a watched partition moved after the last read had started

    def serve(self, deadline_ms: int) -> Steps:
        """Respond when there are enough bytes, or at the deadline."""
        reading = self._reading
        is_last = False
        with ExitStack() as at_end:
            while True:
                left_ms = deadline_ms - reading.ctx.broker.clock.now_ms()
                try:
                    response = yield from self._attempt_in_slices(is_last or left_ms <= 0)
                except LongConversion as long:
                    return (yield from reading.convert(long))
                if response is not None:
                    return response
                if reading.watched is None:
                    watched = yield from self._watch_in_slices(at_end)
                elif not self._has_moved:
                    is_last = yield reading.ctx.broker.purgatory.park([watched], left_ms, bool)
                self._has_moved = False

    def _attempt_in_slices(self, is_last: bool) -> Generator[None, None, schema.Response | None]:
        """Do the same as `FetchReading.attempt`, with pauses."""
        reading = self._reading
        session = reading.context.session
        if reading.watched is not None:
            is_last = is_last or (session is not None and session.lost) or any(each.online_log is None for each in reading.watched)
        results, size, is_urgent = yield from self._read_in_slices()
        if not (is_last or is_urgent or size >= reading.min_bytes):
            if reading.min_bytes <= 1:
                return None
            readable = 0
            for entries, part, _ in self._parts(results):
                readable += reading.readable(part, entries)
                yield
            if readable < reading.min_bytes:
                return None
        return (yield from self._respond_in_slices(results))

    def _read_in_slices(self) -> Generator[None, None, tuple[list[PartitionAnswer], int, bool]]:
        reading = self._reading
        reading.requested = entries = reading.context.partitions()
        reading.partitions = []
        results: list[PartitionAnswer] = []
        size, is_urgent = 0, False
        for start in range(0, len(entries), STEP):
            part = entries[start : start + STEP]
            yield from self._open(part)
            size, is_part_urgent = reading.read(part, results, size)
            is_urgent = is_urgent or is_part_urgent
            yield
        return results, size, is_urgent or reading.has_nothing_to_wait_for()

    def _open(self, entries: Sequence[RequestedPartition]) -> Generator[None, None, None]:
        """Open new logs, with a pause after each."""
        for topic, entry in entries:
            try:
                partition = self._reading.partition(topic, entry.partition)
            except KafkaError:
                continue
            if partition.is_unopened:
                partition.open_now()
                yield

    def _watch_in_slices(self, at_end: ExitStack) -> Generator[None, None, Watchable]:
        """Subscribe to the partitions until `at_end`."""
        reading = self._reading
        session = reading.context.session
        moves = _Moves()
        at_end.callback(moves.subscribe(self._note_move))
        reading.watched = [partition for partition in reading.partitions if partition is not None]
        if session is not None:
            at_end.callback(session.subscribe(moves.wake))
        for start in range(0, len(reading.requested), STEP):
            places = reading.partitions[start : start + STEP]
            for (topic, _), partition in zip(reading.requested[start : start + STEP], places, strict=True):
                if partition is None:
                    continue
                if session is None:
                    at_end.callback(partition.subscribe(moves.wake))
                else:
                    session.watch(topic, partition)
            yield
        return moves

    def _note_move(self) -> None:
        self._has_moved = True

    def _respond_in_slices(self, results: list[PartitionAnswer]) -> Generator[None, None, schema.Response]:
        """Respond as `FetchReading.attempt` does, with pauses. The response is encoded part by part."""
        reading = self._reading
        ctx, quotas = reading.ctx, reading.ctx.broker.quotas
        try:
            if quotas is not None and quotas.limits_fetches_of(ctx):
                encoded = yield from self._merged_in_slices(NO_SESSION, results)
                if quotas.is_too_much_to_fetch(ctx, lambda: quotas.size_of(schema, ctx.api_version, encoded)):
                    return schema.Response(session_id=reading.context.answer_nothing(), responses=[])
            session_id, changed = yield from reading.context.answer_in_slices(results)
        except KafkaError as error:
            return schema.Response(error_code=error.code, responses=[])
        session = reading.context.session
        if session is not None:
            for entries, part, places in self._parts(results):
                current = [
                    partition if self._is_as_read(partition, entry, result) else None
                    for partition, entry, (_, result) in zip(places, entries, part, strict=True)
                ]
                reading.settle(session, entries, part, current)
                yield
        if ctx.cluster is not ctx.broker.cluster or type(ctx.broker.nodes) is not Nodes:
            return reading.full_response(session_id, changed)  # the simulated cluster examines the response
        return (yield from self._merged_in_slices(session_id, changed))

    def _merged_in_slices(self, session_id: int, changed: list[PartitionAnswer]) -> Generator[None, None, schema.Response]:
        """Do the same as `FetchReading.full_response`, with encoded partitions."""
        reading = self._reading
        version = reading.ctx.api_version
        merged = MergedResponse(_ANSWER, version, flexible=version >= schema.FLEXIBLE_SINCE)
        for start in range(0, max(len(changed), 1), STEP):
            is_same_topic = start > 0 and changed[start][0] == changed[start - 1][0]
            merged.add(reading.full_response(session_id, changed[start : start + STEP]), int(is_same_topic))
            yield
        response: schema.Response = merged.response()
        return response

    def _parts(
        self, results: list[PartitionAnswer]
    ) -> Iterator[tuple[list[RequestedPartition], list[PartitionAnswer], list[Partition | None]]]:
        reading = self._reading
        for start in range(0, len(results), STEP):
            end = start + STEP
            yield reading.requested[start:end], results[start:end], reading.partitions[start:end]

    def _is_as_read(self, partition: Partition | None, keyed_entry: RequestedPartition, result: schema.PartitionResult) -> bool:
        """Return whether reading a partition again would give the same result."""
        topic, entry = keyed_entry
        log = partition.online_log if partition is not None else None
        if partition is None or log is None:
            return False
        try:
            is_current = self._reading.partition(topic, entry.partition) is partition
            partition.check_leader_epoch(max(entry.current_leader_epoch, NO_EPOCH))
        except KafkaError:
            return False
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        return is_current and offsets == (result.high_watermark, result.last_stable_offset, result.log_start_offset)


class _Moves(Subscribers):
    """Combines the notifications of many partitions into one."""

    __slots__ = ()
