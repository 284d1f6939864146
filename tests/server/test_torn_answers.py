"""Answers of which a fault lets clients get the first bytes."""

from __future__ import annotations

import pytest

from minibroker.testing.faults.effects import TearingConnection, TornAnswerError
from tests.server.serving import Client, OnLoop, Script, frame, listening, until


@pytest.mark.parametrize("waits", [False, True])
def test_a_torn_answer_is_sent_in_the_place_of_the_answer(on_loop: OnLoop, waits: bool) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script, make_connection=TearingConnection) as listener:
            client = await Client.connect(listener)
            if waits:
                client.send(b"one", b"fsync", b"behind", b"fsync")
                await until(lambda: len(script.waiting) == 2)
                script.waiting[0].finish(None, TornAnswerError("a fault", frame(b"torn")[:6]))
                assert script.waiting[1].is_cancelled
            else:
                client.send(b"one", b"fsync", b"torn", b"never")
                await until(lambda: script.waiting and len(script.seen) == 3)
                script.waiting[0].finish([frame(b"synced")])
                await until(lambda: not listener.connections)
                assert b"never" not in script.seen
            sent = frame(b"one") + (b"" if waits else frame(b"synced")) + frame(b"torn")[:6]
            assert await client.reader.read() == sent

    on_loop(main())
