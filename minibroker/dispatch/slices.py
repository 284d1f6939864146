"""Run long work for a request in slices, so that other clients are served in between.

A handler whose work may take more than a few milliseconds is a generator, and returns the result of
`ctx.broker.slices.run`:

    @handles(schema)
    def produce(ctx, request):
        if is_small(request):
            return _produce(ctx, request)                 # small requests do not pay for a generator
        return ctx.broker.slices.run(_produce_much(ctx, request))

    def _produce_much(ctx, request):
        for batch in ...:
            validate(batch)
            yield                                         # a pause: other clients may be served here
        appended = yield flushed(...)                     # a Delayed: continue with its response when it is ready
        return schema.Response(...)                       # the answer; a KafkaError that is raised is the answer as well

    started --it ends within SLICE_S--> the response, at once: the caller gets no Delayed
            --otherwise--> a Sliced: a Delayed that continues at the end of each turn of the loop

Rules for the generator:
- Yield at least once per millisecond of work. Between two yields no other code runs, so an
  invariant holds there as in any handler.
- Other requests run at a yield: topics may be deleted, groups may change. Look them up again after
  a yield. Do atomic work between two yields: validate in slices, then commit at once.
- The request and the bytes of its frame stay valid until the generator ends. Until then its
  connection serves no other request. If the work reads no bytes of its frame and may wait for long,
  run it with `keeps_frame=False`.
- When the connection closes, the generator is closed at its yield (GeneratorExit).

In each turn of the loop a broker runs one slice. At most ACTIVE_MAX generators take turns, and the
others wait in a queue, to limit the memory of large requests.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from minibroker.dispatch.delayed import Delayed, MakeResponse

if TYPE_CHECKING:
    from minibroker.background import Background
    from minibroker.clock import Clock
    from minibroker.records.steps import Steps as BatchSteps

T = TypeVar("T")

SLICE_S: Final = 0.005  #: the length of a slice
SLOW_S: Final = 0.090  #: if a turn takes this much longer than a slice, the watchdog reports the name of its request
ACTIVE_MAX: Final = 4  #: generators that take turns
LONG_BATCHES_MAX: Final = 1  #: long batches of all clients that are processed at the same time
SORTED_AT_ONCE: Final = 2_000  #: names, in about a millisecond

Steps = Generator[Delayed | None, Any, Any]  #: yields None to pause or a Delayed to wait for; returns the response


class Slices:
    """All sliced work of a broker."""

    def __init__(self, clock: Clock, now_s: Callable[[], float] = time.perf_counter) -> None:
        self.now_s = now_s
        self._clock = clock
        self._queue: deque[Sliced] = deque()  #: the first ACTIVE_MAX take turns
        self._is_due = False
        self.slowest = ""  #: the request in the last turn that was far longer than a slice, for the watchdog (server/loop.py)

    def __len__(self) -> int:
        """Count the generators that can continue, without those that wait for a Delayed."""
        return len(self._queue)

    def run(self, steps: Generator[Delayed | None, Any, T], *, keeps_frame: bool = True) -> T | Delayed:
        """Run the first slice.

        Returns the response if the generator ended, else a Delayed that runs the rest.

        `keeps_frame`: whether the generator reads bytes of the frame. If not, the connection serves
        its next requests in the meantime.
        """
        sliced = Sliced(self, steps) if keeps_frame else _Frameless(self, steps)
        response: T | None = sliced.proceed(self.now_s() + SLICE_S)
        if response is not None:
            return response
        if sliced.is_ready:
            self._queue.append(sliced)
            self._schedule()
        return sliced

    def begin(self, steps: Generator[None, None, T]) -> T | None:
        """Run the first slice of a generator that only pauses.

        Returns its result, or None if it did not end; then pass it to `run`.
        """
        deadline_s = self.now_s() + SLICE_S
        try:
            while True:
                next(steps)
                if self.now_s() >= deadline_s:
                    return None
        except StopIteration as end:
            result: T = end.value
            return result

    def resume(self, sliced: Sliced) -> None:
        """Queue a started generator for its next slice, before those that wait for their second one."""
        self._queue.insert(min(ACTIVE_MAX - 1, len(self._queue)), sliced)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._clock.call_later_ms(0, self._turn)

    def _turn(self) -> None:
        self._is_due = False
        deadline_s = self.now_s() + SLICE_S
        request = None
        while self._queue:
            sliced = self._queue.popleft()
            request = sliced.outermost
            sliced.run_slice(deadline_s)
            if sliced.is_ready and not sliced.is_done:
                self.resume(sliced)
            if self.now_s() >= deadline_s:
                break
        if self.now_s() - deadline_s > SLOW_S:
            self.slowest = str(request)
        if self._queue:
            self._schedule()


class Sliced(Delayed):
    """An answer that a generator creates in slices."""

    __slots__ = ("_awaited", "_is_suspended", "_slices", "_steps", "_steps_aside", "_wake_up", "is_ready")

    keeps_frame = True

    def __init__(self, slices: Slices, steps: Steps) -> None:
        super().__init__()
        self.is_ready = True  #: the generator can continue
        self._is_suspended = True  #: the generator neither runs nor is over; one that mypyc compiled does not know it
        self._slices = slices
        self._steps: Any = steps
        self._awaited: Delayed | None = None  #: the Delayed that the generator waits for
        self._wake_up: MakeResponse | None = None  #: creates the response of that Delayed
        self._steps_aside = False  #: another request waits: every Delayed must answer as soon as it can

    def run_slice(self, deadline_s: float) -> None:
        """Run the next slice. An error becomes the answer."""
        self.resolve(lambda: self.proceed(deadline_s))

    def resume(self, work: MakeResponse) -> None:
        """Continue in the next slice with the result or the error of `work`."""
        self._wake_up = work
        if not self.is_ready:
            self.is_ready = True
            self._slices.resume(self)

    def proceed(self, deadline_s: float) -> Any:
        """Run until the end and return the response.

        Returns None at a Delayed to wait for, or at `deadline_s`.
        """
        now_s = self._slices.now_s
        while True:
            step = self._steps.__next__ if self._awaited is None else self._step_with_response()
            if step is None:
                self.is_ready = False
                return None
            self._is_suspended = False
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            self._is_suspended = True
            if awaited is not None:
                self._awaited = awaited
                self._wake_up = awaited.adopt(self)
                if self._steps_aside:
                    awaited.step_aside()
            elif now_s() >= deadline_s:
                return None

    def _step_with_response(self) -> Callable[[], Any] | None:
        """Return a function that sends the awaited response, or its error, to the generator; None if there is no response yet."""
        awaited, work, self._wake_up = self._awaited, self._wake_up, None
        if awaited is None or work is None:
            return None
        try:
            response = work()
        except Exception as error:  # noqa: BLE001  the generator gets it
            step = partial(self._steps.throw, error.with_traceback(None))
        else:
            if response is None:
                return None
            step = partial(self._steps.send, response)
        self._awaited = None
        if not awaited.is_done:
            awaited.finished()
        return step

    def step_aside(self) -> None:
        """Let the awaited Delayed answer soon, because another request waits."""
        self._steps_aside = True
        if self._awaited is not None:
            self._awaited.step_aside()

    def finished(self) -> None:
        """Close the generator."""
        super().finished()
        awaited, self._awaited = self._awaited, None
        if awaited is not None and not awaited.is_done:
            awaited.finished()
        if self._is_suspended:
            self._steps.close()

    def cancel(self) -> None:
        """Cancel the awaited Delayed and close the generator, because the connection was closed."""
        if not self.is_done:
            if self._awaited is not None:
                self._awaited.cancel()
            self.finished()


class _Frameless(Sliced):
    """An answer that does not need the bytes of its request."""

    __slots__ = ()

    keeps_frame = False


def in_order(names: Iterable[str]) -> Generator[None, None, Iterator[str]]:
    """Sort names in slices. The iterator that it returns merges the sorted runs."""
    rest, runs = iter(names), []
    while run := sorted(islice(rest, SORTED_AT_ONCE)):
        runs.append(run)
        yield
    return merge(*runs)


class RecordSteps:
    """The long batches of a broker: runs their steps (records/steps.py) as slices, or in a worker thread if a step allows it.

    At most LONG_BATCHES_MAX of them are processed at the same time, and the others wait in order. A
    zstd window, or a payload that is compressed again, may take 100 MB.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._active = 0
        self._waiting: deque[Delayed] = deque()

    def do(self, steps: BatchSteps[T]) -> Generator[Delayed | None, Any, T]:
        """Run `steps` within sliced work (dispatch/slices.py). Raises their errors."""
        if self._active < LONG_BATCHES_MAX:
            self._active += 1
        else:
            yield from self._wait()
        try:
            return (yield from self._do(steps))
        finally:
            self._pass_on()

    def _wait(self) -> Generator[Delayed, Any, None]:
        turn = Delayed()
        self._waiting.append(turn)
        try:
            yield turn
        except GeneratorExit:  # the connection was closed
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Start the next waiting batch."""
        if self._waiting:
            self._waiting.popleft().complete(True)
        else:
            self._active -= 1

    def _do(self, steps: BatchSteps[T]) -> Generator[Delayed | None, Any, T]:
        sent: Any = None
        while True:
            try:
                work = steps.send(sent)
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            sent = (yield None) if work is None else (yield self._elsewhere(work))

    def _elsewhere(self, work: Callable[[], Any]) -> Delayed:
        """Start `work` in a worker thread.

        Returns a Delayed with its result, which must not be None, or its error.
        """
        delayed = Delayed()

        def done(outcome: Any) -> None:
            delayed.resolve(partial(_unwrapped, outcome))

        self._background.submit(work, done)
        return delayed


def _unwrapped(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
