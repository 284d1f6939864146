"""Visitors of a console that log in."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


class Visitor:
    """A browser without pages: it keeps its cookie."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc
        self.cookie = ""
        self.set_cookie = ""

    def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._place, timeout=30)
        headers = {"Content-Type": "application/json", "Cookie": self.cookie}
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        self.set_cookie = response.headers.get("Set-Cookie", "")
        if self.set_cookie:
            self.cookie = self.set_cookie.partition(";")[0]
        return response.status, response.read().decode()

    def open(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._place, timeout=30)
        connection.request("GET", path, headers={"Cookie": self.cookie})
        return connection.getresponse()

    def log_in(self, user: str, password: str) -> int:
        return self.ask("/do/login", {"user": user, "password": password})[0]

    def json(self, path: str) -> Any:
        status, text = self.ask(path)
        assert status == 200, text
        return json.loads(text)

    def do(self, action: str, **body: Any) -> Any:
        status, text = self.ask(f"/do/{action}", body)
        assert status == 200, text
        return json.loads(text)
