"""Which versions of TLS and which cipher suites a client offers."""

from __future__ import annotations

import ssl

import pytest

from minibroker.client.security.settings import read_settings
from minibroker.client.security.tls import make_context
from minibroker.errors import ConfigurationError

OLD, OTHER, NEW = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"


def context_of(**properties: str) -> ssl.SSLContext:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    tls = read_settings({"security.protocol": "SSL", **named}).tls
    assert tls is not None
    return make_context(tls)


def old_suites(context: ssl.SSLContext) -> set[str]:
    return {suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"}


def test_cipher_suites_are_those_of_the_configuration() -> None:
    context = context_of(ssl_cipher_suites=f"{OLD},{NEW}")
    assert old_suites(context) == {"ECDHE-RSA-AES128-GCM-SHA256"}
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert len(old_suites(context_of())) > 2


def test_suites_of_one_version_exclude_the_other_version() -> None:
    assert context_of(ssl_cipher_suites=f"{OLD},{OTHER}").maximum_version == ssl.TLSVersion.TLSv1_2
    assert context_of(ssl_cipher_suites=NEW).minimum_version == ssl.TLSVersion.TLSv1_3
    assert context_of(ssl_cipher_suites=f"{OLD},{NEW}", ssl_enabled_protocols="TLSv1.2").maximum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    "properties", [{"ssl_cipher_suites": "TLS_NO_SUCH"}, {"ssl_cipher_suites": NEW, "ssl_enabled_protocols": "TLSv1.2"}]
)
def test_suites_that_cannot_be_used_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"^ssl\.cipher\.suites: none of these suites can be served"):
        context_of(**properties)


@pytest.mark.parametrize("versions", ["TLSv1.1", "TLSv1,TLSv1.3", "TLS"])
def test_insecure_versions_are_refused(versions: str) -> None:
    with pytest.raises(ConfigurationError, match=f"ssl.enabled.protocols={versions} is invalid"):
        context_of(ssl_enabled_protocols=versions)
