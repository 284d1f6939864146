"""The lab over HTTP: what programs in other languages do to `minibroker serve --lab-port`."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from minibroker.http.server import HttpServer, Place
from minibroker.testing import Broker
from minibroker.testing.lab.site import LabSite
from tests.support.broker_process import BrokerProcess


class Served:
    """A broker with a lab, started as users do."""

    def __init__(self, process: BrokerProcess) -> None:
        self.bootstrap = process.bootstrap
        (self.url,) = re.findall(r", lab (http://\S+),", process.output)

    def send(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of an answer; POST when there is a body."""
        if body is not None:
            headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.url}/{path}", body, headers)  # noqa: S310  our own
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  as above
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def do(self, command: str, **arguments: Any) -> Any:
        status, answer = self.send(command, json.dumps(arguments).encode())
        assert status == 200, answer
        return answer["result"]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("lab"), "--lab-port", "0") as process:
        yield process


@pytest.fixture
def served(process: BrokerProcess) -> Served:
    served = Served(process)
    served.do("reset")
    return served


def kcat(served: Served, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = ["kcat", "-b", served.bootstrap, "-t", "orders", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_commands_are_listed(served: Served) -> None:
    status, answer = served.send("")
    commands = {each["command"]: each for each in answer["commands"]}
    assert status == 200
    assert commands["advance"]["arguments"] == {"ms": "float"}
    assert all(each["purpose"].endswith(".") for each in commands.values())
    for name in ("faults.inject", "faults.storage", "high_watermark.hold", "reset", "snapshot", "restore", "requests"):
        assert name in commands


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "message"),
    [
        ("nothing", b"{}", {}, 404, "there is no command 'nothing'; GET / lists the commands"),
        ("rese", b"{}", {}, 404, "there is no command 'rese': did you mean reset?; GET / lists the commands"),
        ("foo", None, {}, 404, "there is no command 'foo'; GET / lists the commands"),
        ("reset", None, {}, 405, "reset: POST its arguments as JSON"),
        ("advance", b"{", {}, 400, "advance: the body is not JSON: "),
        ("advance", b"[1]", {}, 400, "advance: the body must be a JSON object with the arguments"),
        ("advance", b"{}", {}, 400, "advance: argument 'ms' is missing"),
        ("advance", b'{"ms": -1}', {}, 400, "advance: the time must not be negative, got "),
        ("advance", b'{"ms": NaN}', {}, 400, "advance: the body is not JSON: NaN is not a number"),
        ("advance", b'{"ms": 1e17}', {}, 400, "advance: a number is too large: "),
        ("advance", b'{"ms": 1e400}', {}, 400, "advance: a number is too large: "),
        ("advance", b"[" * 100_000, {}, 400, "advance: the body is not JSON: "),
        ("restore", b'{"name": "x"}', {}, 400, "restore: there is no snapshot 'x' (snapshots: none)"),
        ("high_watermark.hold", b'{"topic": "x", "partition": 0}', {}, 400, "high_watermark.hold: UNKNOWN_TOPIC_OR_PARTITION"),
        ("reset/all", b"{}", {}, 404, "there is nothing at /reset/all"),
        ("reset", b" " * ((1 << 20) + 1), {}, 413, f"/reset: {HTTPStatus(413).phrase}"),  # Python 3.13 renamed it
        ("reset", b"", {"Content_Type": "text/plain"}, 415, "reset: use Content-Type: application/json (curl --json), not text/plain"),
        ("info", None, {"Host": "lab.example:80"}, 403, "the lab serves only this machine, which is not called lab.example"),
        ("info", None, {"Host": "lab:example"}, 400, "'lab:example' is not a host"),
        ("info", None, {"Origin": "http://127.0.0.1"}, 403, "the lab serves programs, not pages in a browser"),
        ("reset", b"{}", {"Origin": "null"}, 403, "the lab serves programs, not pages in a browser"),
        ("", None, {"Host": "lab.example"}, 403, "the lab serves only this machine, which is not called lab.example"),
        ("info", None, {"Host": "192.168.1.5"}, 403, "the lab serves only this machine, which is not called 192.168.1.5"),
        ("requests?since=5", None, {}, 400, "requests: POST arguments as JSON, not in the query string"),
    ],
)
def test_errors_are_one_line(served: Served, path: str, body: bytes | None, headers: dict[str, str], status: int, message: str) -> None:
    code, answer = served.send(path, body, **headers)
    assert (code, list(answer)) == (status, ["error"])
    assert answer["error"].startswith(message)
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("host", "served_names", "refused_names"),
    [
        (
            "127.0.0.1",
            ["127.0.0.1:9099", "LOCALHOST", "localhost.", "[::1]:9099", "127.0.0.2"],
            ["broker", "10.0.0.1", "localhost.example.com"],
        ),
        (
            "0.0.0.0",
            [
                "localhost:9099",
                "10.0.0.1",
                "[fe80::1]:80",
                "broker",
                "broker:9099",
                "host.docker.internal",
                "b.n.svc.cluster.local",
                "Lab.Example.COM.",
            ],
            ["rebound.example", "10.0.0.1.example.com", "lab.example.com.attacker.net", "internal.example", "xlab.example.com"],
        ),
    ],
)
async def test_a_page_that_was_bound_to_our_address_cannot_read(host: str, served_names: list[str], refused_names: list[str]) -> None:
    async with Broker() as broker:
        server = HttpServer()
        server.mount(LabSite(broker._hosted.lab), Place(host, 0, ("lab.example.com",)))
        await server.start()

        async def ask(name: str) -> tuple[int, str]:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url("lab").rpartition(":")[2]))
            writer.write(f"GET /info HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
            writer.close()
            return int(head.split()[1]), str(json.loads(body).get("error", ""))

        try:
            assert {name: await ask(name) for name in served_names} == dict.fromkeys(served_names, (200, ""))
            found = {name: await ask(name) for name in refused_names}
            assert {status for status, _ in found.values()} == {403}
            if host != "127.0.0.1":
                assert found["rebound.example"][1].endswith("use its address, or start the broker with --lab-name rebound.example")
        finally:
            await server.stop()


def test_data_time_and_requests(served: Served) -> None:
    assert kcat(served, "-P", text="one\n").returncode == 0
    assert served.do("snapshot", name="one") == {"snapshot": "one"}
    assert served.do("snapshot") == {"snapshot": "1"}
    assert sorted(served.send("snapshots")[1]["result"]) == ["1", "one"]
    assert kcat(served, "-P", text="two\n").returncode == 0
    served.do("restore", name="one")
    assert kcat(served, "-C", "-e", "-q").stdout == "one\n"
    requested = served.send("requests")[1]["result"]
    assert requested["next"] - requested["first"] == len(requested["rows"])
    assert "Fetch" in {dict(zip(requested["columns"], row, strict=True))["api"] for row in requested["rows"]}
    assert served.do("requests", since=requested["next"] - 1)["first"] == requested["next"] - 1
    before_ms = served.send("info")[1]["result"]["now_ms"]
    served.do("advance", ms=3_600_000)
    assert served.send("info")[1]["result"]["now_ms"] - before_ms >= 3_600_000
    served.do("reset")
    after = served.send("requests")[1]["result"]
    assert after["first"] == after["next"] >= requested["next"]  # numbers go on
    assert after["rows"] == []


NODE = """
const [url, command, body] = process.argv.slice(1);
fetch(`${url}/${command}`, {method: "POST", headers: {"Content-Type": "application/json"}, body})
  .then(answer => answer.text()).then(text => process.stdout.write(text));
"""


@pytest.mark.parametrize("language", ["curl", "node"])
def test_a_program_in_another_language_injects_a_fault_and_a_client_meets_it(served: Served, language: str) -> None:
    if shutil.which(language) is None or shutil.which("kcat") is None:
        pytest.skip(f"needs {language} and kcat")
    assert kcat(served, "-P", text="before\n").returncode == 0

    def ask(command: str, body: Any) -> Any:
        text = json.dumps(body)
        curl = ["curl", "-sS", "-H", "Content-Type: application/json", "-d", text, f"{served.url}/{command}"]
        words = curl if language == "curl" else ["node", "-e", NODE, served.url, command, text]
        return json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout)

    rule = {"kind": "error", "api": "Produce", "error": "TOPIC_AUTHORIZATION_FAILED", "topic": "orders", "often": {"times": 1}}
    made = ask("faults.inject", {"rule": rule})["result"]
    refused = kcat(served, "-P", text="refused\n")
    assert refused.returncode != 0
    assert "Topic authorization failed" in refused.stderr
    assert ask("faults.state", made)["result"] == {"calls": 1, "hits": 1}
    assert kcat(served, "-P", text="after\n").returncode == 0
    assert kcat(served, "-C", "-e", "-q").stdout.split() == ["before", "after"]
    assert ask("faults.inject", {"rule": rule | {"api": "Prodce"}})["error"].startswith("faults: ")


def test_a_disk_that_is_full(served: Served) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("needs kcat")
    assert kcat(served, "-P", text="before\n").returncode == 0
    served.do("faults.storage", on="write", error="ENOSPC", topic="orders", often={"times": 1})
    full = kcat(served, "-P", "-X", "message.timeout.ms=1000", text="full\n")
    assert full.returncode != 0
    assert list(served.do("info")["log_dirs"].values()) == [False]
    served.do("faults.heal")
    assert list(served.do("info")["log_dirs"].values()) == [True]
    assert kcat(served, "-P", text="after\n").returncode == 0
    assert kcat(served, "-C", "-e", "-q").stdout.split() == ["before", "after"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--lab-port", "{port}"),
            "--lab-port: cannot listen on 127.0.0.1:{port}: Address already in use. Stop the process that uses the port, ",
        ),
        (
            ("--console-port", "{port}"),
            "--console-port: cannot listen on 127.0.0.1:{port}: Address already in use. Stop the process that uses the port, ",
        ),
        (("--lab-port", "0", "--lab-host", "no.such.host.invalid"), "--lab-port: cannot listen on no.such.host.invalid:0: "),
        (("--lab-port", "0", "--set", "log.segment.bytes=x"), "Invalid value x for configuration log.segment.bytes"),
    ],
)
def test_a_site_that_cannot_start_ends_the_broker(served: Served, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    port = served.url.rpartition(":")[2]
    words = [each.format(port=port) for each in arguments]
    command = [sys.executable, "-m", "minibroker", "serve", "--data-dir", str(tmp_path), "--port", "0", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"Error: {message.format(port=port)}")
    assert ended.stderr.count("\n") == 1


def test_several_log_directories(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    with BrokerProcess(tmp_path, "--lab-port", "0", "--set", "num.partitions=4", log_dirs=folders) as process:
        served = Served(process)
        assert kcat(served, "-P", "-p", "3", text="one\n").returncode == 0
        served.do("snapshot", name="full")
        served.do("reset")
        assert not [each.name for folder in folders for each in folder.glob("orders-*") if not each.name.endswith("-delete")]
        served.do("restore", name="full")
        assert all([*folder.glob("orders-*")] for folder in folders)
        assert kcat(served, "-C", "-e", "-q").stdout == "one\n"
        assert process.stop() == 0
