"""/metrics over HTTP: formats, compression, tokens, and the options of serve."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse

from minibroker.http.server import HttpServer, Place
from minibroker.metrics import site as site_module
from minibroker.metrics.names import ALL
from minibroker.metrics.scrape import scraper_of
from minibroker.metrics.site import OPEN_METRICS, TEXT, MetricsSite, prefers_open_metrics
from minibroker.testing import Broker
from tests.support.broker_process import BrokerProcess

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


async def test_both_formats(broker: Broker) -> None:
    server = HttpServer()
    server.mount(MetricsSite(scraper_of(lambda: broker._hosted.broker, broker._hosted.meter, ALL)), Place())
    await server.start()
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:

            async def get(**headers: str) -> tuple[str, str | None, bytes]:
                names = {name.replace("_", "-"): value for name, value in headers.items()}
                async with session.get(f"{server.url('metrics')}/metrics", headers=names) as answer:
                    assert answer.status == 200
                    return answer.headers["Content-Type"], answer.headers.get("Content-Encoding"), await answer.read()

            kind, encoding, body = await get(Accept_Encoding="identity")
            assert (kind, encoding) == (TEXT, None)
            assert {family.name for family in parse(body.decode())} >= {"kafka_brokers", "process_open_fds"}
            kind, encoding, compressed = await get(Accept=PROMETHEUS, Accept_Encoding="gzip")
            assert (kind, encoding) == (OPEN_METRICS, "gzip")
            assert len(compressed) < len(body) / 3
            _, _, body = await get(Accept=PROMETHEUS, Accept_Encoding="identity")
            assert body.endswith(b"# EOF\n")
            families = parse_open_metrics(body.decode())  # type: ignore[no-untyped-call]  # of the library
            assert {family.name for family in families} >= {"kafka_brokers", "process_open_fds"}
    finally:
        await server.stop()


class LongText:
    """A scraper whose text in OpenMetrics is longer than what sockets keep."""

    async def text(self, *, is_open_metrics: bool) -> str:
        return "x" * 20_000_000 if is_open_metrics else ""


async def test_few_texts_are_kept_for_clients_that_do_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "SCRAPES_MAX", 1)
    server = HttpServer()
    server.mount(MetricsSite(cast("Any", LongText())), Place())
    await server.start()
    url = f"{server.url('metrics')}/metrics"

    async def slow_client() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url("metrics").rpartition(":")[2]), limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n")
        assert b" 200 " in await reader.readline()
        return writer

    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(10):
            gone = await slow_client()
            assert (await session.get(url)).status == 503
            gone.transport.abort()
            while (await session.get(url)).status != 200:
                pass
            monkeypatch.setattr(site_module, "SENT_S", 0.01)
            silent = await slow_client()
            while (await session.get(url)).status != 200:
                pass
            silent.transport.abort()
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("accept", "is_open_metrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        (PROMETHEUS, True),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
    ],
)
def test_which_format_a_client_prefers(accept: str, is_open_metrics: bool) -> None:
    assert prefers_open_metrics(accept) == is_open_metrics


def get(url: str, token: str | None = None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:  # noqa: S310  our own
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_serve_with_metrics(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--metrics-port", "0", "--metrics-names", "kafka_exporter,redpanda", "--lab-port", "0") as process:
        (url,) = re.findall(r", metrics (http://\S+),", process.output)
        status, text = get(f"{url}/metrics")
        assert status == 200
        assert "redpanda_cluster_topics 0" in text
        assert "kafka_log_log_size" not in text
        assert get(f"{url}/")[0] == 404
        assert get(f"{url}/health") == (200, '{"status": "ok", "failed": {}}\n')
        assert process.stop() == 0


async def test_health_of_a_failed_disk(broker: Broker) -> None:
    server = HttpServer()
    server.mount(MetricsSite(scraper_of(lambda: broker._hosted.broker, broker._hosted.meter, ["minibroker"])), Place())
    await server.start()
    try:
        (directory,) = broker._hosted.broker.cluster.log_directories
        directory.take_offline(OSError(5, "Input/output error"))
        async with aiohttp.ClientSession() as session, session.get(f"{server.url('metrics')}/health") as answer:
            assert answer.status == 503
            assert await answer.json() == {"status": "log directories failed", "failed": {directory.path: "[Errno 5] Input/output error"}}
    finally:
        await server.stop()


def test_the_property_and_a_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    options = ("--set", "minibroker.metrics.port=0", "--metrics-token-file", str(token))
    with BrokerProcess(tmp_path, *options) as process:
        (url,) = re.findall(r", metrics (http://\S+),", process.output)
        assert get(f"{url}/metrics")[0] == 401
        status, text = get(f"{url}/metrics", "s3cret")
        assert (status, "minibroker_build_info{" in text) == (200, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--metrics-port", "0", "--metrics-names", "jxm"), "metrics: 'jxm' is not a set of names; choose from kafka_exporter, jmx,"),
        (
            ("--metrics-port", "0", "--metrics-host", "0.0.0.0", "--super-user", "a"),
            "0.0.0.0 lets other machines read the names of topics and groups, but access control is on: use --metrics-token-file, or leave",
        ),
        (("--set", "minibroker.metrics.port=-2"), "Invalid value -2 for configuration minibroker.metrics.port"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    command = [sys.executable, "-m", "minibroker", "serve", "--data-dir", str(tmp_path), "--port", "0", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert problem in result.stderr


def test_a_broker_without_metrics_imports_nothing_of_them(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from minibroker.config.broker_config import BrokerConfig; from minibroker.server.broker import Broker\n"
        "async def main():\n"
        f"    broker = Broker(BrokerConfig({{'log.dirs': {str(tmp_path)!r}, 'listeners': 'PLAINTEXT://127.0.0.1:0'}}))\n"
        "    await broker.start(); await broker.stop()\n"
        "asyncio.run(main()); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert [
        name for name in loaded if name.split(".")[0] in {"prometheus_client", "aiohttp"} or name.startswith("minibroker.metrics")
    ] == []
