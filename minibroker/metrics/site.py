"""/metrics and /health over HTTP.

/metrics is Prometheus text 0.0.4, or OpenMetrics 1.0 if the client prefers it, and compressed if it accepts gzip.
"""

from __future__ import annotations

import asyncio
from typing import Final

try:
    from aiohttp import web
except ImportError:  # the HTTP server says so
    web = None  # type: ignore[assignment]

from minibroker.http.access import Pages
from minibroker.http.server import Routes, json_failure, json_response
from minibroker.metrics.scrape import Scraper, scraper_of

__all__ = ("MetricsSite", "scraper_of")

SCRAPES_MAX: Final = 8  #: at the same time; the text of a slow client stays in memory
SENT_S: Final = 60.0  #: until a client must have taken its text
COMPRESSED_IN_THREAD: Final = 32_768  #: bytes; fewer are compressed within a millisecond
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class MetricsSite:
    """Serves /metrics."""

    name = "metrics"
    noun = "metrics endpoint"
    extra = "metrics"
    pages = Pages.OWN
    shared_prefix = ""
    body_max = 1024

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper
        self._scrape_count = 0  #: whose text is not sent yet

    failure = staticmethod(json_failure)

    def add_routes(self, routes: Routes) -> None:
        """Add /metrics and /health."""
        routes.get("/metrics", self._metrics)
        routes.get("/health", self._health)

    async def _health(self, _request: web.Request) -> web.Response:
        """Answer with 200 if all log directories work, else 503. That it answers shows that the loop runs."""
        failed = {path: cause for path, cause in self._scraper.log_directories().items() if cause is not None}
        return json_response(503 if failed else 200, {"status": "log directories failed" if failed else "ok", "failed": failed})

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._scrape_count >= SCRAPES_MAX:
            return json_failure(request, 503, f"{SCRAPES_MAX} clients are reading metrics already")
        self._scrape_count += 1
        try:
            response = await self._scrape(request)
            async with asyncio.timeout(SENT_S):
                await response.prepare(request)
                await response.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._scrape_count -= 1
        return response

    async def _scrape(self, request: web.Request) -> web.Response:
        is_open_metrics = prefers_open_metrics(request.headers.get("Accept", ""))
        text = await self._scraper.text(is_open_metrics=is_open_metrics)
        headers = {"Content-Type": OPEN_METRICS if is_open_metrics else TEXT}
        response = web.Response(body=text.encode(), headers=headers, zlib_executor_size=COMPRESSED_IN_THREAD)
        response.headers["Vary"] = "Accept, Accept-Encoding"
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        return response


def prefers_open_metrics(accept: str) -> bool:
    """Whether an Accept header prefers OpenMetrics to the text format."""
    qualities: dict[str, float] = {}
    for each in accept.split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            qualities[media.lower()] = max(qualities.get(media.lower(), 0.0), float(quality))
        except ValueError:
            continue
    wanted = qualities.get("application/openmetrics-text", 0.0)
    return wanted > 0 and wanted >= qualities.get("text/plain", 0.0)
