"""A broker imports the libraries of telemetry at the first push, not at a start, ApiVersions or a request for a subscription."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from uuid import UUID
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k71_get_telemetry_subscriptions as k71
from minibroker.schemas import k72_push_telemetry as k72
from tests.support.broker_in_memory import BrokerInMemory

LIBRARIES = ("google.protobuf", "opentelemetry", "minibroker.telemetry.telemetry")

def imported():
    print(*(name for name in LIBRARIES if name in sys.modules), sep=",")

broker = BrokerInMemory()
broker.ask(k18.Request(client_software_name="a", client_software_version="1"))
imported()
answer = broker.ask(k71.Request(client_instance_id=UUID(int=9)))
imported()
fields = {"client_instance_id": UUID(int=9), "subscription_id": answer.subscription_id, "terminating": False, "compression_type": 0}
assert broker.ask(k72.Request(metrics=b"\\x0a\\x00", **fields)).error_code == 0
imported()
"""


def test_libraries_are_imported_at_the_first_push() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "",
        "minibroker.telemetry.telemetry",
        "google.protobuf,opentelemetry,minibroker.telemetry.telemetry",
    ]
