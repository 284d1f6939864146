"""A disk that stops taking writes."""

from __future__ import annotations

import time
from pathlib import Path

import frames

from attacking.declaration import TOPIC, Target, attack

_WAIT_S = 30.0


@attack("a read-only remount of the data directory", "remount,ro by hand, then by the kernel after an error", needs_disk=True)
def remount(target: Target) -> None:
    """The broker has one log directory, so it must exit with one line and a code that is not 0."""
    assert target.disk is not None  # noqa: S101  the attack has needs_disk
    target.create_topic()
    link, batch = target.connect(), frames.record_batch(1, 100)
    target.ask(frames.produce(TOPIC, 0, batch), link)
    complaint = target.disk.remount(target.pid)
    target.note(f"remount by hand: {complaint.rpartition(': ')[2] or 'done'}")
    target.disk.fail()
    answer = target.ask(frames.produce(TOPIC, 0, batch), link)
    target.note(f"Produce after it: error {frames.produce_error(bytearray(answer), 0, TOPIC)}" if answer else "no answer to Produce")
    end = time.monotonic() + _WAIT_S
    while Path(f"/proc/{target.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < end:
        time.sleep(0.05)
