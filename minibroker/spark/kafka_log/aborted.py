"""Which batches of a file are of no effect, by what transaction indexes and markers say (transactions.py)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from minibroker.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from minibroker.spark.kafka_log.ranges import AbortedRange


class AbortedBatches:
    """Those of the ranges; in any order, asked for any batches."""

    def __init__(self, ranges: Iterable[AbortedRange]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for each in sorted(ranges, key=lambda each: each.first_offset):
            self._by_producer.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def among(self, headers: np.ndarray) -> np.ndarray:
        """Whether each batch is void; `headers` as read_frame_headers has them. Markers are not."""
        found = np.zeros(len(headers), bool)
        if self._by_producer:
            flags = headers["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
            for index in np.flatnonzero(flags == TRANSACTIONAL_FLAG).tolist():
                found[index] = self._is_void(int(headers["producer_id"][index]), int(headers["base_offset"][index]))
        return found

    def _is_void(self, producer_id: int, base_offset: int) -> bool:
        ranges = self._by_producer.get(producer_id, ())
        number = bisect_right(ranges, base_offset, key=lambda each: each[0]) - 1
        return number >= 0 and base_offset <= ranges[number][1]
