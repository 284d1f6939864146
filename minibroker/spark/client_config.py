"""How pipelines connect by TLS and SASL: one client configuration for the driver, for tasks, and for Spark's connector.

The configuration has the properties of Java's clients or of librdkafka, as in the file of `--command-config`. The driver reads the
files that it names and puts their content in place of the names, so executors need no files. The configuration is only in options of
readers and in tasks, which Spark does not show. The session hides the options that Spark does show (session.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from minibroker.client.connection import Connect, connect
from minibroker.client.security.connecting import connector
from minibroker.client.security.settings import SaslSettings, TlsSettings, read_settings
from minibroker.client.security.tls import identity_pem, trusted_pem
from minibroker.errors import ConfigurationError
from minibroker.security.jaas import OAUTHBEARER_LOGIN_MODULE, PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from minibroker.security.sasl_session import OAUTHBEARER, PLAIN
from minibroker.spark.failures import SourceError

_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def executor_config(client_config: Mapping[str, str] | None) -> dict[str, str]:
    """Return a client configuration that needs no files; empty for connections by PLAINTEXT.

    Raises:
        SourceError: a property is missing or invalid, or has no equivalent in Spark's connector.
    """
    if not client_config:
        return {}
    try:
        found = portable(client_config)
    except ConfigurationError as error:
        raise SourceError(str(error)) from error
    return {} if found == {"security.protocol": "PLAINTEXT"} else found


def connect_of(config: Mapping[str, str]) -> Connect:
    """Return the function that connects with a result of `executor_config`."""
    if not config:
        return connect
    return connector(config)


def kafka_options(client_config: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink, `kafka.` and a property, for a client configuration.

        spark.read.format("kafka").options(**kafka_options(config)).option("subscribe", "orders")

    Raises:
        SourceError: a property is missing or invalid, or has no equivalent in Spark's connector.
    """
    found = {f"kafka.{name}": text for name, text in executor_config(client_config).items()}
    if "bootstrap.servers" in client_config:
        found["kafka.bootstrap.servers"] = client_config["bootstrap.servers"]
    return found


def portable(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties of Java's clients, which this client reads as well, that need no file.

    Args:
        properties: those of Java or librdkafka (client/security/settings.py); others are left out.

    Raises:
        ConfigurationError: a property is missing or invalid, names a file that cannot be used, or has no equivalent in Java's clients.
    """
    settings = read_settings(properties)
    found = {"security.protocol": settings.protocol}
    if settings.tls is not None:
        found |= _tls(settings.tls)
    if settings.sasl is not None:
        found |= _sasl(settings.sasl)
    return found


def _tls(settings: TlsSettings) -> dict[str, str]:
    if not settings.checks_certificate:
        raise ConfigurationError(
            "enable.ssl.certificate.verification=false is not possible here: Java's clients always verify certificates"
        )
    found: dict[str, str] = {}
    if settings.trust.is_given:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted_pem(settings.trust)}
    if settings.identity.is_given:
        found |= _identity(settings)
    if not settings.checks_host:
        found["ssl.endpoint.identification.algorithm"] = ""
    if settings.protocols:
        found["ssl.enabled.protocols"] = ",".join(settings.protocols)
    if settings.ciphers:
        found["ssl.cipher.suites"] = ",".join(settings.ciphers)
    return found


def _identity(settings: TlsSettings) -> dict[str, str]:
    pem, password = identity_pem(settings)
    text = pem.decode("latin-1")
    option = settings.identity.option
    key = _KEY.search(text)
    if key is None:
        raise ConfigurationError(f"{option}: it has no private key in PEM form")
    if key[1] not in {"", "ENCRYPTED "}:
        raise ConfigurationError(f"{option}: Java's clients read private keys in PKCS#8 only: convert the key with openssl pkcs8 -topk8")
    found = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key[0],
        "ssl.keystore.certificate.chain": "\n".join(_CERTIFICATE.findall(text)),
    }
    return found | ({"ssl.key.password": password} if key[1] else {})


def _sasl(settings: SaslSettings) -> dict[str, str]:
    if settings.mechanism != OAUTHBEARER:
        module = PLAIN_LOGIN_MODULE if settings.mechanism == PLAIN else SCRAM_LOGIN_MODULE
        options = {"username": settings.user, "password": settings.password.reveal()}
        options |= {"tokenauth": "true"} if settings.is_delegation_token else {}
    elif settings.user:
        module = OAUTHBEARER_LOGIN_MODULE
        options = {name: text for name, text in settings.options.items() if name.startswith("unsecuredLogin")}
        options |= {"unsecuredLoginStringClaim_sub": settings.user} if not options else {}
    else:
        raise ConfigurationError("a signed token of OAUTHBEARER is not possible here: Java's clients fetch tokens from the issuer")
    option_text = "".join(f" {name}={_quoted(text)}" for name, text in options.items())
    return {"sasl.mechanism": settings.mechanism, "sasl.jaas.config": f"{module} required{option_text};"}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
