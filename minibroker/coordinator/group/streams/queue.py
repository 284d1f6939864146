"""A queue that gives out the least first, and of equals those that Java's PriorityQueue would give: a binary heap in an array.

Which of equals comes next decides who is given a task, so that it must be the same here and there. (heapq moves its elements otherwise.)
Source: java.util.PriorityQueue, whose order of equals is no promise, but what the assignors of Apache Kafka 4.3.1 work with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class LeastFirst(Generic[T]):
    """A queue by `size`, which must not change while an element is in it."""

    def __init__(self, size: Callable[[T], float], elements: Iterable[T]) -> None:
        self._size = size
        self._heap: list[T] = []
        for element in elements:
            self.add(element)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: T) -> None:
        """Put it in: it rises while who is above it is larger."""
        heap, size, index = self._heap, self._size(element), len(self._heap)
        heap.append(element)
        while index > 0:
            above = (index - 1) // 2
            if size >= self._size(heap[above]):
                break
            heap[index] = heap[above]
            index = above
        heap[index] = element

    def take(self) -> T:
        """Take the least out; IndexError of an empty one. The last one takes its place, and sinks while who is below it is smaller."""
        heap = self._heap
        least, last = heap[0], heap.pop()
        if not heap:
            return least
        size, index = self._size(last), 0
        while (below := 2 * index + 1) < len(heap):
            if below + 1 < len(heap) and self._size(heap[below]) > self._size(heap[below + 1]):
                below += 1
            if size <= self._size(heap[below]):
                break
            heap[index] = heap[below]
            index = below
        heap[index] = last
        return least
