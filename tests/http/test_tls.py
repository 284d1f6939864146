"""HTTPS of sites: the certificate of the first listener with TLS, also after it changed."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from typing import Any, cast

import pytest
from cryptography import x509

from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import ConfigurationError
from minibroker.http.server import LOOPBACK, HttpServer, Place
from minibroker.http.tls import https_context
from minibroker.security.certificates import Authority
from minibroker.security.tls import ListenerTls, tls_of
from minibroker.server.listener import Listener
from minibroker.server.secured_listener import SecuredListener
from minibroker.testing.certificates import keystore, truststore
from tests.http.test_server import Site
from tests.support.ports import free_port


class FakeListener:
    """A listener with a certificate, or with none."""

    def __init__(self, tls: ListenerTls | None = None) -> None:
        self.secured: Any = None
        if tls is not None:
            self.secured = object.__new__(SecuredListener)
            self.secured.tls = tls


def tls_with(authority: Authority, name: str) -> ListenerTls:
    """TLS whose listener asks its clients for certificates."""
    texts = keystore(authority.issue(name, (LOOPBACK,)), authority) | truststore(authority) | {"ssl.client.auth": "required"}
    return tls_of(ListenerProperties(texts, "SSL"), "SSL")


def name_at(url: str, context: ssl.SSLContext) -> str:
    """The name in the certificate, after a request that is answered."""
    host, _, port = url.removeprefix("https://").partition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context)
    try:
        connection.request("GET", "/lab")
        shown = cast("ssl.SSLSocket", connection.sock).getpeercert(binary_form=True)
        assert connection.getresponse().read() == b"lab"
    finally:
        connection.close()
    assert shown is not None
    return x509.load_der_x509_certificate(shown).subject.rfc4514_string()


async def test_the_present_certificate_is_shown() -> None:
    authority = Authority.create()
    secured = FakeListener(tls_with(authority, "first"))
    listeners = [FakeListener(), secured]
    context = https_context(lambda: cast("list[Listener]", listeners))
    trusting = ssl.create_default_context(cadata=authority.issued.certificate_pem)
    server = HttpServer()
    server.mount(Site("lab"), Place(tls=context))
    await server.start()
    try:
        url = server.url("lab")
        assert url.startswith("https://127.0.0.1:")
        assert await asyncio.to_thread(name_at, url, trusting) == "CN=first"
        secured.secured.tls = tls_with(authority, "second")
        assert await asyncio.to_thread(name_at, url, trusting) == "CN=second"
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(name_at, url, ssl.create_default_context())
    finally:
        await server.stop()


def test_without_a_listener_with_tls_there_is_no_https() -> None:
    with pytest.raises(ConfigurationError, match="it needs a listener with TLS"):
        https_context(lambda: cast("list[Listener]", [FakeListener()]))


def test_sites_on_one_port_have_one_protocol() -> None:
    server, port = HttpServer(), free_port()
    server.mount(Site("lab"), Place(LOOPBACK, port))
    with pytest.raises(ConfigurationError, match=r"--console-tls: all sites at 127\.0\.0\.1:\d+ must have the same protocol"):
        server.mount(Site("console"), Place(LOOPBACK, port, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
