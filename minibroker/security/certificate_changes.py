"""Whether a listener may change its key and trust stores while it runs, by the rules of Kafka's SslFactory.

A new certificate has the distinguished name of the old one and at least its alternative names, unless `ssl.allow.dn.changes` or
`ssl.allow.san.changes` is true. A listener that started without a trust store does not get one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import InvalidConfig
from minibroker.security import needs_extra
from minibroker.security.principals import distinguished_name
from minibroker.security.tls import ListenerTls

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

#: Properties that a running listener follows (SslConfigs.RECONFIGURABLE_CONFIGS). It reads the others when it starts.
RECONFIGURABLE: Final = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
_TRUSTED: Final = ("ssl.truststore.certificates", "ssl.truststore.location")


def changed_texts(first: Mapping[str, str], texts: Mapping[str, str], listener_name: str) -> dict[str, str]:
    """Return the properties that a listener has after a change: those of its start, and the present ones of its stores."""
    present, names = ListenerProperties(texts, listener_name), ListenerProperties({}, listener_name)
    found = {name: text for name, text in first.items() if not name.endswith(RECONFIGURABLE)}
    for name in RECONFIGURABLE:
        text = present.secret(name)
        if present.full_name(name) is not None and text is not None:
            found[names.name_to_set(name)] = text.reveal()
    return found


def check_change(before: ListenerTls, after: ListenerTls, first: ListenerProperties, properties: ListenerProperties) -> None:
    """Check that a listener may change from `before` to `after`.

    Args:
        before: the TLS of new connections at present.
        after: their TLS after the change.
        first: the properties with which the listener started.
        properties: the present properties.

    Raises:
        InvalidConfig: it may not; the message is Kafka's.
        ConfigurationError: `cryptography` is not installed.
    """
    if not _has_trust_store(first) and _has_trust_store(properties):
        raise InvalidConfig("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    old, new = before.chain[0], after.chain[0]
    if old == new:
        return
    if not properties.is_true("ssl.allow.dn.changes"):
        names = distinguished_name(old), distinguished_name(new)
        if names[0] != names[1]:
            raise InvalidConfig(
                f"Keystore DistinguishedName does not match:  existing={{alias={before.alias}, DN={names[0]}}}, "
                f"new={{alias={after.alias}, DN={names[1]}}}"
            )
    if not properties.is_true("ssl.allow.san.changes"):
        hosts = _alternative_names(old), _alternative_names(new)
        if not set(hosts[0]) <= set(hosts[1]):
            raise InvalidConfig(
                f"Keystore SubjectAltNames do not match:  existing={{alias={before.alias}, SAN=[{', '.join(hosts[0])}]}}, "
                f"new={{alias={after.alias}, SAN=[{', '.join(hosts[1])}]}}"
            )


def _has_trust_store(properties: ListenerProperties) -> bool:
    return any(properties.full_name(name) is not None for name in _TRUSTED)


def _alternative_names(certificate: bytes) -> list[str]:
    """Return the subject alternative names of a DER certificate as Java shows them, for example `[2, localhost]`."""
    try:
        from cryptography import x509  # noqa: PLC0415  optional
    except ImportError:
        raise needs_extra("changing the certificate of a running listener") from None
    try:
        names = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [_java_text(name) for name in names]


def _java_text(name: GeneralName) -> str:
    kind = _KINDS.get(type(name).__name__, 0)
    value = name.value
    if isinstance(value, ipaddress.IPv6Address):
        return f"[{kind}, {':'.join(f'{int(part, 16):x}' for part in value.exploded.split(':'))}]"
    return f"[{kind}, {value}]"


#: Numbers of RFC 5280's GeneralName by the classes of `cryptography`.
_KINDS: Final = {"RFC822Name": 1, "DNSName": 2, "DirectoryName": 4, "UniformResourceIdentifier": 6, "IPAddress": 7, "RegisteredID": 8}
