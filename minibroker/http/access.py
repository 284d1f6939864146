"""Reject requests that a page of another site may have sent, and requests without the token of a site.

A page can reach a server on loopback through the browser of its visitor. Three rules keep them out:

Host      A page can bind its own name to our address (DNS rebinding). Names that could be registered in the public DNS are
          therefore rejected, unless they are configured.
Origin    `Pages.NONE`: any request with an Origin header is rejected. `Pages.OWN`: the origin must be the host of the request.
Sec-Fetch-Site
          Browsers name the site that caused a request. With `Pages.OWN`, other sites may only link to a page.

A browser asks (preflight) before it sends a body of type application/json to another site. No response
has CORS headers, so that it gets no permission. Sites that change something must therefore accept only
such bodies, or a token of their own pages.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from aiohttp import web

_LOCALHOST: Final = "localhost"
_PRIVATE: Final = (".internal", ".local", ".localhost", ".test")  #: never registered: RFC 6761, 6762, and ICANN for .internal
_SAFE_METHODS: Final = ("GET", "HEAD")
_HOSTS_MAX: Final = 64  #: Host headers whose name is remembered
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Pages(Enum):
    """Which pages of a browser may send requests to a site."""

    NONE = "none"
    OWN = "own"


class Refusal(NamedTuple):
    """Why a request is not served."""

    status: int
    message: str


class Access:
    """The rules of one site at one address."""

    def __init__(self, site: str, option: str, host: str, *, names: Iterable[str], pages: Pages, token: str | None = None) -> None:
        """Create the rules.

        Args:
            site: the noun for messages, such as "lab".
            option: the command line option that adds a name, such as "--lab-name".
            host: the address that the site listens on.
            names: host names that clients may use, besides addresses, `host` itself and names that are never registered.
            pages: which pages may send requests.
            token: what clients must send as `Authorization: Bearer TOKEN`; None: no token.
        """
        self._site = site
        self._option = option
        self._is_local = is_loopback(host)
        self._names = {each.lower().rstrip(".") for each in (*names, host)}
        self._pages = pages
        self._token = None if token is None else f"Bearer {token}".encode()
        self._names_of_hosts: dict[str, str] = {}  #: parsing a URL takes as long as the rest of a short request

    def refusal(self, request: web.BaseRequest) -> Refusal | None:
        """Return why the request is rejected; None: serve it."""
        headers = request.headers
        if self._pages is Pages.NONE and "Origin" in headers:
            return Refusal(403, f"the {self._site} serves programs, not pages in a browser")
        try:
            name = self._name_of_host(request)
        except ValueError:
            return Refusal(400, f"{request.host!r} is not a host")
        refusal = self._refusal_of_name(name)
        if refusal is None and self._pages is Pages.OWN:
            refusal = self._refusal_of_page(request)
        if refusal is None and self._token is not None:
            given = headers.get("Authorization", "").encode(errors="replace")
            if not hmac.compare_digest(given, self._token):
                return Refusal(401, f"the {self._site} needs a token: send it as 'Authorization: Bearer TOKEN'")
        return refusal

    def _name_of_host(self, request: web.BaseRequest) -> str:
        """Return the name in a Host header. Raises ValueError if it is not one."""
        name = self._names_of_hosts.get(request.host)
        if name is None:
            name = (request.url.host or "").rstrip(".")
            if len(self._names_of_hosts) < _HOSTS_MAX:
                self._names_of_hosts[request.host] = name
        return name

    def _refusal_of_name(self, name: str) -> Refusal | None:
        if name in self._names:
            return None
        if self._is_local:
            if not is_loopback(name):
                return Refusal(403, f"the {self._site} serves only this machine, which is not called {name}")
        elif not _is_never_registered(name):
            advice = f"use its address, or start the broker with {self._option} {name}"
            return Refusal(403, f"the {self._site} is not known as {name}: {advice}")
        return None

    def _refusal_of_page(self, request: web.BaseRequest) -> Refusal | None:
        """Reject requests that pages of other sites caused, except links to a page."""
        headers = request.headers
        origin = headers.get("Origin")
        if origin is not None and not _is_same(origin, request.host):
            return Refusal(403, f"the {self._site} does not serve pages of {origin[:200]!r}")
        caused_by = headers.get("Sec-Fetch-Site", "none")
        if caused_by in {"same-origin", "none"}:
            return None
        is_link = (
            request.method in _SAFE_METHODS and headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
        )
        return None if is_link else Refusal(403, f"the {self._site} does not serve requests of other sites")


def _is_same(origin: str, host: str) -> bool:
    """Whether an Origin header names the host and port of a Host header."""
    try:
        page = urlsplit(origin)
        here = urlsplit(f"{page.scheme}://{host}")
        ends = page.port, here.port
    except ValueError:
        return False
    default = _DEFAULT_PORTS.get(page.scheme)
    return default is not None and page.hostname == here.hostname and (ends[0] or default) == (ends[1] or default)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def is_loopback(name: str) -> bool:
    """Whether a host is this machine for itself."""
    address = _address(name)
    return name == _LOCALHOST if address is None else address.is_loopback


def _is_never_registered(name: str) -> bool:
    """Whether no page can have the name: an address, a machine or container of this network, or a reserved domain."""
    return _address(name) is not None or "." not in name or name.endswith(_PRIVATE)
