"""A broker with listeners that clients log in to, in a thread: its data are in memory, its properties are those of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from minibroker.config.broker_config import BrokerConfig
from minibroker.server.broker import Broker
from minibroker.server.loop import loop_factory
from minibroker.testing.memory_files import MemoryFiles

T = TypeVar("T")
TIMEOUT_S = 60.0

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class SaslBroker:
    """A running broker until the context ends."""

    def __init__(self, properties: Mapping[str, str], on_loop: Callable[[Broker], None] = lambda _: None) -> None:
        self._properties = {"log.dirs": "/sasl", "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1", **properties}
        self._on_loop = on_loop
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.broker: Broker

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.broker = self._run(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self.broker.stop(1))
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    async def _start(self) -> Broker:
        broker = Broker(BrokerConfig(self._properties), MemoryFiles())
        await broker.start()
        self._on_loop(broker)
        return broker

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function with the broker, on the thread of the broker."""

        async def called() -> T:
            return function(self.broker)

        result: T = self._run(called())
        return result

    def port(self, listener: str) -> int:
        """The port of a listener."""
        return next(each.port for each in self.broker.listeners if each.name == listener)

    def bootstrap(self, listener: str = "SASL") -> str:
        """The address of a listener."""
        return f"127.0.0.1:{self.port(listener)}"
