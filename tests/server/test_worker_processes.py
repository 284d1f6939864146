"""Work in processes beside the broker: results, failures, and that no process outlives who needs it."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from minibroker.background import LowPriority, WorkLost
from minibroker.errors import KafkaStorageError
from minibroker.server import logs, worker_child
from minibroker.server.loop_background import LoopBackground
from minibroker.server.worker_processes import WorkerProcesses
from minibroker.storage.files import RealFiles
from tests.server.serving import until
from tests.support.becoming import wait_until


class Picky(Exception):  # noqa: N818  it is no error
    """Cannot be made again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail(error: BaseException) -> None:
    raise error


def fail_unpicklably() -> None:
    raise Picky(1, 2)


def say_and_wait(path: Path) -> None:
    path.write_text(str(os.getpid()))
    threading.Event().wait()


def print_something() -> int:
    print("this is no answer")
    return 7


def is_gone(pid: int) -> bool:
    """Dead; a zombie that nobody has taken note of yet is dead, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def processes(idle_s: float = 60.0) -> Iterator[WorkerProcesses]:
    found = WorkerProcesses(asyncio.get_running_loop(), idle_s=idle_s)
    try:
        yield found
    finally:
        found.close()


async def result_of(pool: WorkerProcesses, work: Callable[[], Any]) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pool.submit(work, future.set_result)
    return await future


async def test_work_runs_in_another_process_that_is_used_again() -> None:
    with processes() as pool:
        pid = await result_of(pool, os.getpid)
        assert pid != os.getpid()
        assert await result_of(pool, os.getpid) == pid
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    assert is_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such priority")
async def test_work_of_low_priority_has_processes_that_give_way() -> None:
    with processes() as pool:
        usual = await result_of(pool, os.getpid)
        low = await result_of(pool, LowPriority(os.getpid))
        assert low != usual
        assert os.sched_getscheduler(low) == os.SCHED_IDLE
        assert os.sched_getscheduler(usual) == os.SCHED_OTHER
        assert [await result_of(pool, work) for work in (LowPriority(os.getpid), os.getpid)] == [low, usual]


def test_work_of_low_priority_runs_where_the_system_refuses_that_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """As musl does, the C library of Alpine Linux, and gVisor."""
    monkeypatch.setattr(os, "sched_setscheduler", Mock(side_effect=OSError(errno.ENOSYS, "Function not implemented")), raising=False)
    answer = worker_child._answer(pickle.dumps(LowPriority(os.getpid)))
    assert pickle.loads(answer) == (False, os.getpid())  # noqa: S301  our own


async def test_two_works_at_one_time_have_two_processes() -> None:
    with processes() as pool:
        first, second = await asyncio.gather(result_of(pool, os.getpid), result_of(pool, os.getpid))
        assert first != second


async def test_exception_of_the_work_is_returned() -> None:
    with processes() as pool:
        error = await result_of(pool, partial(fail, KafkaStorageError("no disk")))
        assert isinstance(error, KafkaStorageError)
        assert str(error) == "no disk"
        error = await result_of(pool, partial(fail, FileNotFoundError(2, "gone", "x.log")))
        assert (type(error), error.errno, error.filename) == (FileNotFoundError, 2, "x.log")
        assert str(await result_of(pool, fail_unpicklably)) == "Picky: 1 and 2"
        assert isinstance(await result_of(pool, lambda: 1), Exception), "a lambda cannot travel"
        assert isinstance(await result_of(pool, print_something), int), "what work prints is not taken for an answer"


async def test_the_file_system_travels_with_the_work(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    with processes() as pool:
        assert await result_of(pool, partial(RealFiles.names, str(tmp_path))) == ["here"]
        assert await result_of(pool, partial(RealFiles().size, f"{tmp_path}/here")) == 0


async def test_a_process_that_dies_loses_its_work_and_no_other(tmp_path: Path) -> None:
    with processes() as pool:
        assert isinstance(await result_of(pool, partial(os._exit, 3)), WorkLost)
        pid = await result_of(pool, os.getpid)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: is_gone(pid))
        assert await result_of(pool, os.getpid) != pid


async def test_work_that_is_given_up_is_killed(tmp_path: Path) -> None:
    results: list[Any] = []
    with processes() as pool:
        give_up = pool.submit(partial(say_and_wait, tmp_path / "pid"), results.append)
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        pid = int((tmp_path / "pid").read_text())
        give_up()
        await until(lambda: results)
        assert isinstance(results[0], WorkLost)
        assert is_gone(pid)
        give_up()
        given_up_at_once = pool.submit(partial(say_and_wait, tmp_path / "again"), results.append)
        given_up_at_once()
        await until(lambda: len(results) == 2)
        assert isinstance(results[1], WorkLost)


async def test_an_idle_process_ends() -> None:
    with processes(idle_s=0) as pool:
        pid = await result_of(pool, os.getpid)
        await until(lambda: is_gone(pid))
        assert await result_of(pool, os.getpid) != pid


async def test_closing_ends_work_under_way(tmp_path: Path) -> None:
    results: list[Any] = []
    background = LoopBackground(asyncio.get_running_loop(), 1)
    background.submit_process(partial(say_and_wait, tmp_path / "pid"), results.append)
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    background.close()
    assert is_gone(int((tmp_path / "pid").read_text()))
    await until(lambda: results)
    assert isinstance(results[0], WorkLost)


def test_no_process_outlives_a_broker_that_was_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio
from functools import partial
from pathlib import Path
from minibroker.server.worker_processes import WorkerProcesses
from tests.server.test_worker_processes import say_and_wait
async def main():
    WorkerProcesses(asyncio.get_running_loop()).submit(partial(say_and_wait, Path({str(tmp_path / "pid")!r})), print)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    try:
        wait_until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()), "the worker starts")
    finally:
        parent.kill()
        parent.wait()
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: is_gone(pid), "the worker ends")


@pytest.mark.parametrize("given", [("json", "debug"), ("text", "error")])
def test_a_worker_logs_as_its_broker(given: tuple[str, str]) -> None:
    code = f"from minibroker.server import logs; logs.set_up(*{given!r}); print(*logs.in_use())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == given
    assert logs.in_use()[0] in logs.FORMATS
