"""TLS of the client: make an `ssl.SSLContext` from settings, do the handshake, and explain its failures in one line."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from minibroker.client.errors import BrokerUnreachable, ClientError, SecurityFailed, SecurityPart, TimedOut
from minibroker.client.security.settings import StoreSettings, TlsSettings
from minibroker.client.transport import CONNECT_TIMEOUT_S, Address, Deadline
from minibroker.config.secret import Secret
from minibroker.errors import ConfigurationError
from minibroker.security import keystores
from minibroker.security.java_keystore import KeyStoreError
from minibroker.security.tls import set_suites

PEM: Final = "PEM"
_VERSIONS: Final = {"TLSv1.2": "TLSv1_2", "TLSv1.3": "TLSv1_3"}
_TICKS: Final = re.compile(r"\s*\(_ssl\.c:\d+\)|\[[A-Z0-9_: ]+\] ?")

#: verify codes of OpenSSL (X509_V_ERR_...)
_NOT_YET_VALID, _EXPIRED = 9, 10
_HOST_NAME: Final = frozenset({62, 64})  #: a name or an address that is not in the certificate

#: alerts with which a broker rejects the client's certificate, or its absence
_CERTIFICATE_ALERTS: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA", "ALERT_CERTIFICATE")
_VERSION_REASONS: Final = (
    "PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "NO_PROTOCOLS",
    "HANDSHAKE_FAILURE",
    "NO_CIPHERS",
    "NO_SHARED_CIPHER",
)
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL")


class ClientTls:
    """TLS for the connections of a client. Files are read once, by the constructor."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read trust store and key store; ConfigurationError if either cannot be used."""
        self._settings = settings
        self._context = make_context(settings)

    def wrap(self, plain: socket.socket, address: Address, deadline: Deadline) -> socket.socket:
        """Do the handshake; raise a ClientError that explains its failure to the user."""
        left = deadline.remaining_s()
        plain.settimeout(CONNECT_TIMEOUT_S if left is None else max(0.001, min(left, CONNECT_TIMEOUT_S)))
        try:
            return self._context.wrap_socket(plain, server_hostname=address.host)
        except (OSError, ValueError) as error:  # ValueError: a host name that TLS cannot send
            raise failure(error, address, self._settings) from error

    def explain(self, error: OSError, address: Address) -> ClientError | None:
        """Explain an alert after the handshake: in TLS 1.3, the broker checks the client's certificate after the client has finished."""
        return SecurityFailed(*_alert(error, address, self._settings)) if isinstance(error, ssl.SSLError) else None


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of connections; ConfigurationError names the property that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host and settings.checks_certificate
    if not settings.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    _limit_versions(context, settings.protocols)
    if settings.ciphers:
        _limit_suites(context, settings)
    if settings.trust.is_given:
        _trust(context, settings.trust)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.identity.is_given:
        _identify(context, settings)
    return context


def _limit_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown:
        raise ConfigurationError(
            f"ssl.enabled.protocols={','.join(names)} is invalid: give some of {', '.join(_VERSIONS)}; older versions are not secure"
        )
    if names:
        versions = sorted(ssl.TLSVersion[_VERSIONS[name]] for name in names)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _limit_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Offer the configured cipher suites, and the versions of TLS that have one of them.

    Python cannot choose among the suites of TLS 1.3: if one of them is configured, the client offers all.
    """
    versions = [name for name in ("TLSv1.2", "TLSv1.3") if name in settings.protocols or not settings.protocols]
    found = set_suites(context, "ssl.cipher.suites", settings.ciphers, versions)
    _limit_versions(context, tuple(found))


def _trust(context: ssl.SSLContext, store: StoreSettings) -> None:
    try:
        context.load_verify_locations(cadata=trusted_pem(store))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"{store.option}: {store.location or 'its text'} has no certificate in PEM form") from error


def trusted_pem(store: StoreSettings) -> str:
    """Return the certificates of a trust store as PEM; ConfigurationError if it cannot be read."""
    try:
        return store.certificates or _certificates(store)
    except KeyStoreError as error:
        raise ConfigurationError(f"{store.option}: {store.location}: {error}") from error


def _certificates(store: StoreSettings) -> str:
    data = read(store)
    if not _is_pem(store, data):
        return keystores.pem_of(keystores.certificates_of_store(data, store.password))
    return "".join(re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", data.decode("latin-1"), re.DOTALL))


def _is_pem(store: StoreSettings, data: bytes) -> bool:
    """Whether a file is PEM: by the store's type, or by the content if the type is not set.

    Whether another store is JKS or PKCS12 is always found out from its content.
    """
    return store.type == PEM or (store.type is None and b"-----BEGIN" in data)


def read(store: StoreSettings) -> bytes:
    """Return the content of a store's file; ConfigurationError if it cannot be read."""
    try:
        return Path(store.location or "").read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{store.option}: {store.location}: {error.strerror}") from error


def _identify(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load the client's certificate and key."""
    store = settings.identity
    chain, password = identity_pem(settings)
    with _private_file(chain) as file:
        try:
            context.load_cert_chain(file, password=password)  # without a password, OpenSSL would prompt on the terminal
        except ssl.SSLError as error:
            source = store.location or "its text"
            advice = "is it a PEM file with a private key and a certificate, and is ssl.key.password the key's?"
            raise ConfigurationError(f"{store.option}: {source} cannot be used ({_reason(error)}): {advice}") from None


def identity_pem(settings: TlsSettings) -> tuple[bytes, str]:
    """Return the client's key and certificates as PEM, and the password of the key. Read them from one file, two files, or texts.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    store = settings.identity
    password = settings.key_password.reveal() if settings.key_password is not None else ""
    if store.certificates is not None:
        return f"{store.key.reveal() if store.key is not None else ''}\n{store.certificates}\n".encode(), password
    chain = read(store)
    if not _is_pem(store, chain):
        try:
            material = keystores.key_of_store(chain, store.password or Secret(""), settings.key_password)
        except KeyStoreError as error:
            raise ConfigurationError(f"{store.option}: {store.location}: {error}") from error
        password = "" if material.password is None else material.password.reveal()
        chain = f"{material.key.reveal()}\n{keystores.pem_of(material.chain)}".encode()
    if settings.key_location:
        chain += b"\n" + read(StoreSettings(settings.key_location, PEM, None, "ssl.key.location"))
    return chain, password


@contextlib.contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Yield the name of a file with a secret. OpenSSL loads keys only from files. The file is in memory if the system supports this."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # 0600
        file.write(content)
        file.flush()
        yield file.name


def failure(error: Exception, address: Address, settings: TlsSettings) -> ClientError:
    """Return the error that explains a failed handshake to the user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return SecurityFailed(*_verification(error, address, settings))
    if isinstance(error, TimeoutError):
        return TimedOut(f"{address} does not finish the TLS handshake in time: is it a listener with TLS?")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return SecurityFailed(*_alert(error, address, settings))
    if isinstance(error, OSError):
        return BrokerUnreachable(f"{address} closed the connection during the TLS handshake: is it a listener with TLS?")
    return SecurityFailed(SecurityPart.HOST_NAME, f"{address}: {address.host!r} is not a host name that TLS can check")


def _verification(error: ssl.SSLCertVerificationError, address: Address, settings: TlsSettings) -> tuple[SecurityPart, str]:
    if error.verify_code in _HOST_NAME:
        names = _names_at(address, settings)
        actual = f", but for {', '.join(names)}" if names else ""
        advice = "connect by such a name, or issue a certificate for this one (ssl.endpoint.identification.algorithm= checks no name)"
        return SecurityPart.HOST_NAME, f"the certificate of {address} is not for host {address.host!r}{actual}: {advice}"
    if error.verify_code == _EXPIRED:
        return SecurityPart.EXPIRED, f"the certificate of {address} has expired: renew it on the broker"
    if error.verify_code == _NOT_YET_VALID:
        return SecurityPart.EXPIRED, f"the certificate of {address} is not valid yet: compare the clocks of this machine and the issuer"
    trusted = settings.trust.location or ("the certificates of the configuration" if settings.trust.certificates else "this system")
    advice = "set ssl.truststore.location (or ssl.ca.location) to the CA that issued it"
    return SecurityPart.CA, f"{trusted} does not trust the issuer of the certificate of {address} ({error.verify_message}): {advice}"


def _alert(error: ssl.SSLError, address: Address, settings: TlsSettings) -> tuple[SecurityPart, str]:
    reason = error.reason or ""
    if any(each in reason for each in _CERTIFICATE_ALERTS):
        if settings.identity.is_given:
            message = f"{address} rejects the certificate of this client ({_reason(error)}): does the broker trust its issuer?"
        else:
            message = f"{address} requires a certificate of the client: set ssl.keystore.location to one that the broker trusts"
        return SecurityPart.CLIENT_CERTIFICATE, message
    if any(each in reason for each in _VERSION_REASONS):
        return SecurityPart.PROTOCOL, f"{address} and this client have no common version or cipher suite of TLS ({_reason(error)})"
    if any(each in reason for each in _NOT_TLS):
        return SecurityPart.PROTOCOL, f"{address} is a listener without TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    return SecurityPart.PROTOCOL, f"TLS with {address} failed: {_reason(error)}"


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "").replace("_", " ").lower() or _TICKS.sub("", str(error)).strip()


def _names_at(address: Address, settings: TlsSettings) -> list[str]:
    """Connect again without checking host names, and return the names in the certificate. Its issuer must be trusted."""
    context = make_context(settings._replace(checks_host=False))
    try:
        with (
            socket.create_connection(address, timeout=CONNECT_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except (OSError, ValueError):
        return []
    names = certificate.get("subjectAltName", ())
    return [_short(str(name[1])) for name in names if len(name) == 2]


def _short(name: str) -> str:
    """Return an address as it is usually written: OpenSSL writes ::1 as 0:0:0:0:0:0:0:1."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name


def speaks_tls(address: Address, timeout_s: float) -> bool:
    """Whether a TLS server listens at an address, with any certificate. Sends only a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout=timeout_s) as plain, context.wrap_socket(plain, server_hostname=address.host):
            return True
    except ssl.SSLError as error:
        return any(each in (error.reason or "") for each in (*_CERTIFICATE_ALERTS, *_VERSION_REASONS))  # it answered in TLS
    except (OSError, ValueError):
        return False
