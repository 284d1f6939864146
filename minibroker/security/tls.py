"""TLS of one listener: from its properties to an `ssl.SSLContext`, and from a client's certificate to its principal.

The rules for properties are those of Kafka's DefaultSslEngineFactory. An error names the property to change.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from minibroker.config.secret import Secret
from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import ConfigurationError, InvalidConfig
from minibroker.security import keystores
from minibroker.security.java_keystore import MAGIC, KeyStoreError
from minibroker.security.keystores import JKS, PEM, PKCS12, KeyMaterial
from minibroker.security.principals import MappingRules, NoPrincipal, distinguished_name

log = logging.getLogger(__name__)

TLS_1_3: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)  # fmt: skip

_EXCHANGES: Final = {
    "TLS_ECDHE_ECDSA_WITH_": "ECDHE-ECDSA-", "TLS_ECDHE_RSA_WITH_": "ECDHE-RSA-", "TLS_DHE_RSA_WITH_": "DHE-RSA-", "TLS_RSA_WITH_": "",
}  # fmt: skip
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}

#: IANA name -> OpenSSL name of suites of TLS 1.2. Names of suites that do not exist harm nothing: OpenSSL leaves them out.
TLS_1_2: Final = {
    exchange + cipher: f"{openssl_exchange}{openssl_cipher}"
    for exchange, openssl_exchange in _EXCHANGES.items()
    for cipher, openssl_cipher in _CIPHERS.items()
}


_ANONYMOUS: Final = "User:ANONYMOUS"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS: Final = frozenset({"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class ListenerTls(NamedTuple):
    """What a listener needs to serve TLS."""

    context: ssl.SSLContext
    chain: tuple[bytes, ...]  #: the broker's own certificates, DER
    rules: MappingRules
    is_principal: bool  #: whether a client's certificate is its principal; SASL has its own
    alias: str = ""  #: of the key in its store

    def principal_of(self, certificate: bytes | None) -> str:
        """Return the principal of a client by its DER certificate. Raise NoPrincipal if no rule matches its name."""
        if certificate is None or not self.is_principal:
            return _ANONYMOUS
        try:
            name = distinguished_name(certificate)
        except (ValueError, IndexError) as error:  # OpenSSL is more tolerant
            raise NoPrincipal("the name of the certificate cannot be read") from error
        return f"User:{self.rules.principal(name)}"


def tls_of(properties: ListenerProperties, protocol: str) -> ListenerTls:
    """Return the TLS of a listener whose protocol is SSL or SASL_SSL.

    Raises:
        ConfigurationError: The properties cannot be used; the message is one line that says which one to change.
    """
    try:
        builder = _Builder(properties)
        material = builder.key_material()
        client_auth = _client_auth(properties, protocol)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        _set_versions(context, properties)
        _load_key(context, material, builder)
        if client_auth != ssl.CERT_NONE:
            _request_certificates(context, client_auth, builder.trusted())
        else:
            builder.trusted()  # a broken trust store prevents a start, as in Kafka
        rules_name = properties.name_to_set("ssl.principal.mapping.rules")
        text = properties.text("ssl.principal.mapping.rules")
        rules = MappingRules("DEFAULT" if text is None else text, rules_name)
    except InvalidConfig as error:
        raise ConfigurationError(str(error)) from error
    if client_auth != ssl.CERT_NONE and protocol == "SSL":
        distinguished_name(material.chain[0])  # raises at start if `cryptography` is missing
    return ListenerTls(context, material.chain, rules, is_principal=protocol == "SSL", alias=material.alias)


def _client_auth(properties: ListenerProperties, protocol: str) -> ssl.VerifyMode:
    text = str(properties.get("ssl.client.auth"))
    if protocol == "SASL_SSL" and not properties.is_own("ssl.client.auth"):
        if text != "none":
            log.warning(
                "ssl.client.auth=%s has no effect on the SASL_SSL listener %s: set %s",
                text, properties.name, f"listener.name.{properties.name.lower()}.ssl.client.auth",
            )  # fmt: skip
        return ssl.CERT_NONE
    return _CLIENT_AUTH[text]


def _request_certificates(context: ssl.SSLContext, mode: ssl.VerifyMode, trusted: tuple[bytes, ...]) -> None:
    """Request client certificates that lead to a trusted one. Sessions are not resumed, so each connection sends its certificate."""
    context.verify_mode = mode
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Java trusts any certificate of the store, not only roots
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    if trusted:
        context.load_verify_locations(cadata=keystores.pem_of(trusted))
    else:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)


def _set_versions(context: ssl.SSLContext, properties: ListenerProperties) -> None:
    name = properties.name_to_set("ssl.enabled.protocols")
    enabled = properties.items("ssl.enabled.protocols")
    for version in enabled:
        if version not in _VERSIONS and version not in _OLD_VERSIONS:
            raise ConfigurationError(f"{name}: {version} is not a version of TLS: use TLSv1.2, TLSv1.3")
        if version in _OLD_VERSIONS:
            log.warning("%s: %s is not served, because it is not secure", name, version)
    versions = [each for each in _VERSIONS if each in enabled]
    suites = properties.items("ssl.cipher.suites")
    if suites:
        versions = set_suites(context, properties.name_to_set("ssl.cipher.suites"), suites, versions)
    if not versions:
        raise ConfigurationError(f"{name}: none of these versions of TLS is supported: use TLSv1.2, TLSv1.3")
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]


def set_suites(context: ssl.SSLContext, name: str, suites: tuple[str, ...], versions: list[str]) -> list[str]:
    """Choose cipher suites by their IANA names, and return the versions of TLS that have one of them.

    Raises:
        ConfigurationError: OpenSSL has none of the suites in these versions. `name` is the property that the message names.
    """
    unknown = [suite for suite in suites if suite not in TLS_1_2 and suite not in TLS_1_3]
    if unknown:
        log.warning("%s: %s cannot be served: OpenSSL does not have it", name, ", ".join(unknown))
    old = [TLS_1_2[suite] for suite in suites if suite in TLS_1_2]
    is_old = False
    if old and "TLSv1.2" in versions:
        try:
            context.set_ciphers(":".join(old))
            is_old = True
        except ssl.SSLError:
            log.warning("%s: OpenSSL serves none of the suites of TLS 1.2", name)
    is_new = "TLSv1.3" in versions and any(suite in TLS_1_3 for suite in suites)
    found = [version for version, has_suite in (("TLSv1.2", is_old), ("TLSv1.3", is_new)) if has_suite]
    if not found:
        raise ConfigurationError(f"{name}: none of these suites can be served with ssl.enabled.protocols={','.join(versions)}")
    return found


def _load_key(context: ssl.SSLContext, material: KeyMaterial, builder: _Builder) -> None:
    text = material.key.reveal() + "\n" + keystores.pem_of(material.chain)
    password = material.password.reveal() if material.password is not None else ""
    name = builder.key_name
    try:
        with_private_file(text, lambda path: context.load_cert_chain(path, password=password))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            builder.refuse(name, "the private key is that of another certificate")
        if material.password is not None:
            builder.refuse("ssl.key.password", "the password is wrong, or the key is encrypted in a way that OpenSSL does not read")
        builder.refuse(name, f"OpenSSL cannot use the key or its certificates ({error.reason or 'unknown format'})")


def with_private_file(text: str, use: Callable[[str], None]) -> None:
    """Call `use` with the path of a file that only this process can open, because ssl reads keys from files only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            use(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "key.pem"
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
        use(str(path))


class _Builder:
    """Reads the stores of a listener by Kafka's rules."""

    def __init__(self, properties: ListenerProperties) -> None:
        self._properties = properties
        self.key_name = "ssl.keystore.key" if self._secret("ssl.keystore.key") else "ssl.keystore.location"

    def refuse(self, name: str, problem: str) -> NoReturn:
        """Raise ConfigurationError about a property, by the name under which it is or should be set."""
        raise ConfigurationError(f"{self._properties.name_to_set(name)}: {problem}")

    def _secret(self, name: str) -> Secret | None:
        return self._properties.secret(name)

    def _type(self, name: str) -> str:
        kind = (self._properties.text(name) or JKS).upper()
        if kind not in keystores.TYPES:
            self.refuse(name, f"{kind} is not served: use {PEM}, {PKCS12} or {JKS}")
        return kind

    def key_material(self) -> KeyMaterial:
        """Return the private key and its chain (DefaultSslEngineFactory.createKeystore)."""
        kind, path = self._type("ssl.keystore.type"), self._properties.text("ssl.keystore.location")
        password, key_password = self._secret("ssl.keystore.password"), self._secret("ssl.key.password")
        key, chain = self._secret("ssl.keystore.key"), self._secret("ssl.keystore.certificate.chain")
        self._check_key(kind, path, password, has_key=key is not None, has_chain=chain is not None)
        try:
            if key is not None and chain is not None:
                return keystores.key_of_pem(key, chain.reveal(), key_password)
            data = keystores.read_file(path or "")
            if kind == PEM:
                text = _text_of(data)
                return keystores.key_of_pem(Secret(text), text, key_password)
            return keystores.key_of_store(data, password or Secret(""), key_password)
        except KeyStoreError as error:
            self.refuse(_property_to_change(error, self.key_name, "ssl.keystore.password", "ssl.key.password"), str(error))

    def _check_key(self, kind: str, path: str | None, password: Secret | None, *, has_key: bool, has_chain: bool) -> None:
        """Refuse properties that exclude each other, and missing ones."""
        if has_key:
            if kind != PEM:
                self.refuse("ssl.keystore.type", f"a private key as text needs the type PEM, not {kind}")
            if not has_chain:
                self.refuse("ssl.keystore.certificate.chain", "it is missing, although ssl.keystore.key is set")
            if path is not None:
                self.refuse("ssl.keystore.location", "remove it, because ssl.keystore.key is set")
        elif has_chain:
            self.refuse("ssl.keystore.key", "it is missing, although ssl.keystore.certificate.chain is set")
        if kind == PEM and password is not None and (has_key or path is not None):
            self.refuse("ssl.keystore.password", "a PEM key store has none: remove it, and set ssl.key.password if the key is encrypted")
        if not has_key and path is None:
            if password is not None:
                self.refuse("ssl.keystore.location", "it is missing, although ssl.keystore.password is set")
            self.refuse(
                "ssl.keystore.location",
                f"listener {self._properties.name} has no private key: set this property and ssl.keystore.type, or set ssl.keystore.key",
            )
        if kind != PEM and password is None:
            self.refuse("ssl.keystore.password", f"it is missing: a key store of type {kind} needs it")

    def trusted(self) -> tuple[bytes, ...]:
        """Return trusted certificates; none if nothing is set (DefaultSslEngineFactory.createTruststore)."""
        kind, path = self._type("ssl.truststore.type"), self._properties.text("ssl.truststore.location")
        password, inline = self._secret("ssl.truststore.password"), self._secret("ssl.truststore.certificates")
        if inline is not None:
            if kind != PEM:
                self.refuse("ssl.truststore.type", f"certificates as text need the type PEM, not {kind}")
            if path is not None:
                self.refuse("ssl.truststore.location", "remove it, because ssl.truststore.certificates is set")
        if kind == PEM and password is not None and (inline is not None or path is not None):
            self.refuse("ssl.truststore.password", "a PEM trust store has none: remove it")
        if path is None and password is not None:
            self.refuse("ssl.truststore.location", "it is missing, although ssl.truststore.password is set")
        name = "ssl.truststore.certificates" if inline is not None else "ssl.truststore.location"
        try:
            if inline is not None:
                return keystores.certificates_of_pem(inline.reveal())
            if path is None:
                return ()
            data = keystores.read_file(path)
            return keystores.certificates_of_pem(_text_of(data)) if kind == PEM else keystores.certificates_of_store(data, password)
        except KeyStoreError as error:
            self.refuse(_property_to_change(error, name, "ssl.truststore.password", "ssl.truststore.password"), str(error))


def _property_to_change(error: KeyStoreError, store: str, password: str, key_password: str) -> str:
    """Return the property to change."""
    text = str(error)
    if "password" not in text:
        return store
    return key_password if "key" in text.partition("password")[2] or "ssl.key.password" in text else password


def _text_of(data: bytes) -> str:
    if b"-----BEGIN" not in data and (b"\0" in data or data.startswith((b"\x30", MAGIC))):
        raise KeyStoreError("the file is not PEM: set the type to PKCS12 or JKS")
    return data.decode("latin-1")
