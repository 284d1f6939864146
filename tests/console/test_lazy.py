"""A broker without a console imports nothing of it."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka import Producer

from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess

#: Python imports this module at its start. It notes what is imported after it.
NOTES = """
import os, sys
file = os.open(os.environ["IMPORTED"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
def note(event, arguments):
    if event == "exec":
        os.write(file, getattr(arguments[0], "co_filename", "").encode() + b"\\n")
sys.addaudithook(note)
"""
OF_THE_CONSOLE = re.compile(r"/(minibroker/(?:console|metrics|http|testing|registry)|jinja2|markupsafe|aiohttp)/")


def imported(folder: Path, *arguments: str) -> set[str]:
    """The packages of the console, and those that it needs, that a broker imports until it has served a client."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NOTES)
    notes = folder / "imported.txt"
    broker = BrokerProcess(folder, *arguments, prefix=("env", f"PYTHONPATH={folder}", f"IMPORTED={notes}"))
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", "value")
        assert producer.flush(30) == 0
        if arguments:  # aiohttp is imported after the start
            wait_until(lambda: "/aiohttp/web.py" in notes.read_text(), "aiohttp is imported")
        text = notes.read_text()
        assert "/minibroker/schemas/k00_produce.py" in text
        return {*OF_THE_CONSOLE.findall(text)}
    finally:
        broker.stop()


def test_a_broker_without_a_console_imports_nothing_of_it(tmp_path: Path) -> None:
    assert imported(tmp_path / "without") == set()
    assert {"minibroker/console", "jinja2", "aiohttp"} <= imported(tmp_path / "with", "--console-port", "0")
