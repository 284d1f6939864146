"""A broker in a thread of the test's process: the fastest to start, and usable by any client."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from minibroker.server.loop import loop_factory
from minibroker.testing.data import Snapshot
from minibroker.testing.hosted import HostedBroker
from minibroker.testing.options import MEMORY, BrokerError, BrokerOptions, DataDir, Setting
from minibroker.testing.request_log import RequestLog
from minibroker.testing.surface import Surface

if TYPE_CHECKING:
    from minibroker.registry.schema_files import Schemas

T = TypeVar("T")

_TIMEOUT_S: Final = 60.0  #: for any call to the thread: beyond it the broker hangs, or a debugger has stopped the process


class BrokerThread(Surface):
    """A broker in a thread.

    Args:
        topics: topics to create at the start and at each `reset`: names, or names with numbers of partitions.
        config: properties by Kafka's names: `{"auto.create.topics.enable": False}`.
        data_dir: MEMORY (the default), TEMPORARY (a folder that is removed at the end), or a folder that stays.
        port: the port on 127.0.0.1; 0: a free one. `stop` and `start` keep it. Further brokers have the following ports.
        brokers: how many brokers clients see (docs/several-brokers.md). Topics have as many replicas, up to 3, unless `config` or the
            client that creates them says otherwise. Nothing is replicated.
        racks: the racks of the brokers in turn.
        users: passwords by name; clients must log in as one of them, by PLAIN or SCRAM (`client_config` says how).
        super_users: users who may do everything; with them, or with `acls`, others may do only what an entry allows.
        acls: access control entries such as `alice allow READ TOPIC orders-*` (docs/security.md).
        tls: encrypt with certificates that are made for this broker; `client_config` has what clients need to trust them.
        mtls: also ask each client for a certificate. Without `users` the name in it is the user; `client_config` makes one for any name.
        like_kafka: behave as Apache Kafka does wherever minibroker deliberately differs from it (docs/differences.md).
        schemas: a folder of schemas, or files by subject, that are registered at the start and at each `reset` (docs/testing.md).

    Nothing is synced to a disk, and internal topics have 5 partitions instead of 50.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | Iterable[str] = (),
        config: Mapping[str, Setting] | None = None,
        data_dir: DataDir | str | os.PathLike[str] = MEMORY,
        port: int = 0,
        brokers: int = 1,
        racks: Iterable[str] = (),
        like_kafka: bool = False,
        users: Mapping[str, str] | None = None,
        super_users: Iterable[str] = (),
        acls: Iterable[str] = (),
        tls: bool = False,
        mtls: bool = False,
        schemas: Schemas | str | os.PathLike[str] | None = None,
    ) -> None:
        options = BrokerOptions(
            topics=topics, config=config, data_dir=data_dir, port=port, brokers=brokers, racks=racks, like_kafka=like_kafka,
            users=users, super_users=super_users, acls=acls, tls=tls, mtls=mtls, schemas=schemas,
        )  # fmt: skip
        self._hosted = HostedBroker(options)
        self._access = options.access
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for any client's bootstrap.servers."""
        self._running_loop()
        return self._hosted.bootstrap_servers

    @property
    def is_running(self) -> bool:
        """Whether the broker serves."""
        return self._loop is not None

    @property
    def data_dir(self) -> Path | None:
        """The folder of the data; None: in memory."""
        return self._hosted.data_dir

    @property
    def request_log(self) -> RequestLog:
        """See Surface."""
        return self._hosted.request_log

    def start(self) -> Self:
        """See Surface."""
        if self._loop is not None:
            raise BrokerError("the broker is already running")
        loop = self._loop = loop_factory()()
        self._thread = threading.Thread(target=_run, args=(loop,), name="minibroker", daemon=True)
        self._thread.start()
        try:
            self._await(self._hosted.start())
        except BaseException:
            self._end_thread()
            raise
        return self

    def stop(self) -> None:
        """See Surface."""
        if self._loop is not None:
            try:
                self._await(self._hosted.stop())
            finally:
                self._end_thread()

    def close(self) -> None:
        """See Surface."""
        self.stop()
        self._hosted.remove_data()

    def snapshot(self) -> Snapshot:
        """See Surface."""
        return self._call(self._hosted.snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """See Surface."""
        self._call(lambda: self._hosted.restore(snapshot))

    def _execute(self, name: str, arguments: dict[str, Any], /) -> Any:
        return self._await(self._hosted.lab.execute(name, arguments))

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise BrokerError("the broker is not running: use `with BrokerThread() as broker:`, or start() it")
        return self._loop

    def _call(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._await(run())

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running_loop()
        except BrokerError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(_TIMEOUT_S)
        except TimeoutError as error:
            if future.done():  # the call itself raised it
                raise
            future.cancel()
            raise BrokerError(f"the broker's thread did not answer within {_TIMEOUT_S:g} s") from error

    def _end_thread(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_TIMEOUT_S)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop in the thread until it is stopped."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
