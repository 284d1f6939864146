"""Addresses of brokers in the form that users write: `host:port,host:port`, `[::1]:9092`, with or without the port."""

from __future__ import annotations

from typing import NamedTuple

from minibroker.client.errors import ClientError

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """The host and port of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> list[Address]:
    """Return the addresses of a bootstrap list, in its order; ClientError if one is invalid."""
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ClientError("no bootstrap server given: pass host:port with -b or MINIBROKER_BOOTSTRAP_SERVER")
    return addresses


def _parse(text: str) -> Address:
    bare = text.partition("://")[2] or text
    if bare.startswith("["):
        host, closing, rest = bare[1:].partition("]")
        port_text = rest.removeprefix(":")
        wrong = not closing or (rest and not rest.startswith(":"))
    else:
        host, _, port_text = bare.partition(":")
        wrong = ":" in port_text
    port = int(port_text) if port_text.isascii() and port_text.isdigit() else (0 if port_text else DEFAULT_PORT)
    if wrong or not host or not 0 < port < 65536:
        raise ClientError(f"bootstrap server {text!r} is not host:port (an IPv6 address needs brackets: [::1]:9092)")
    return Address(host, port)
