"""Listeners with the stores of keystore_files.py, for Apache Kafka (captures/keystores.py) and for minibroker to open.

An outcome is "refused" and why, or what clients see: the certificates that a listener sends, and who may connect.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.golden.keystore_files import KEY_PASSWORD, ODD_PASSWORD, PASSWORD

Properties = Mapping[str, str]  #: without the prefix of the listener; {F} is the folder, {file NAME} the text of a file
APIVERSIONS: Final = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"
CLIENTS: Final = ("client", "other", "stranger", "")


def _pem(file: str, password: str = "") -> Properties:
    found = {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{{F}}/{file}"}
    return found | ({"ssl.key.password": password} if password else {})


def _store(file: str, kind: str, password: str = PASSWORD, key_password: str | None = None) -> Properties:
    found = {"ssl.keystore.type": kind, "ssl.keystore.location": f"{{F}}/{file}", "ssl.keystore.password": password}
    return found | ({"ssl.key.password": key_password} if key_password else {})


def _inline(file: str, password: str = "") -> Properties:
    found = {"ssl.keystore.type": "PEM", "ssl.keystore.key": f"{{key {file}}}", "ssl.keystore.certificate.chain": f"{{chain {file}}}"}
    return found | ({"ssl.key.password": password} if password else {})


def _trust(file: str, kind: str, password: str = "") -> Properties:
    found = {"ssl.truststore.type": kind, "ssl.truststore.location": f"{{F}}/{file}"}
    return _MUTUAL | found | ({"ssl.truststore.password": password} if password else {})


_MUTUAL: Final = {"ssl.client.auth": "required", "ssl.keystore.type": "PEM", "ssl.keystore.location": "{F}/p256.pem"}
_PLAIN_PEM = (
    "rsa", "rsa4096", "p256", "p384", "p521", "ed25519", "with-root", "certificates-first", "key-in-the-middle", "reversed",
    "intermediate-first", "issuers-out-of-order", "leaf-alone", "a-stranger-behind", "a-stranger-first", "leaf-twice", "of-another-key",
    "expired", "two-keys", "no-certificate", "no-key", "empty", "crlf", "bom", "indented", "without-last-newline", "pkcs1", "sec1",
    "sec1-with-parameters", "damaged-certificate", "damaged-key", "explained",
)  # fmt: skip
_ENCRYPTED_PEM = (
    "pbes2-aes256", "pbes2-aes128-sha1", "pbes2-3des", "pbes2-scrypt", "pbes1-3des", "pbes1-md5-des", "pbes1-rc2",
    "pkcs1-aes256", "pkcs1-3des",
)  # fmt: skip
_OPENSSL = (
    "openssl", "openssl-legacy", "openssl-3des", "openssl-plain-certificates", "openssl-plain", "openssl-no-mac", "openssl-named",
    "openssl-p256", "openssl-ed25519", "openssl-leaf-alone",
)  # fmt: skip
CASES: Final[dict[str, Properties]] = {
    **{f"PEM {name}": _pem(f"{name}.pem") for name in _PLAIN_PEM},
    **{f"PEM {name}": _pem(f"{name}.pem", KEY_PASSWORD) for name in _ENCRYPTED_PEM},
    "PEM encrypted, no password": _pem("pbes1-3des.pem"),
    "PEM encrypted, wrong password": _pem("pbes1-3des.pem", "wrong"),
    "PEM not encrypted, but a password": _pem("p256.pem", KEY_PASSWORD),
    "PEM of type PKCS12": _store("p256.pem", "PKCS12"),
    **{f"inline {name}": _inline(f"{name}.pem") for name in ("rsa", "reversed", "pkcs1", "crlf", "explained")},
    "inline pbes1-3des": _inline("pbes1-3des.pem", KEY_PASSWORD),
    **{f"PKCS12 {name}": _store(f"{name}.p12", "PKCS12") for name in _OPENSSL},
    "PKCS12 openssl-odd-password": _store("openssl-odd-password.p12", "PKCS12", ODD_PASSWORD),
    "PKCS12 openssl-empty-password": _store("openssl-empty-password.p12", "PKCS12", ""),
    "PKCS12 wrong password": _store("openssl.p12", "PKCS12", "wrong"),
    "PKCS12 with the password of the key": _store("openssl.p12", "PKCS12", PASSWORD, PASSWORD),
    "PKCS12 with another password of the key": _store("openssl.p12", "PKCS12", PASSWORD, "wrong"),
    "PKCS12 of type PEM": _pem("openssl.p12"),
    **{f"PKCS12 {name}": _store(f"{name}.p12", "PKCS12") for name in ("keytool", "keytool-legacy", "two-keys", "trust-too")},
    "PKCS12 keytool of type JKS": _store("keytool.p12", "JKS"),
    "PKCS12 openssl of type JKS": _store("openssl.p12", "JKS"),
    "PKCS12 trust store": _store("trust.p12", "PKCS12"),
    **{f"JKS {name}": _store(f"{name}.jks", "JKS") for name in ("keytool", "two-keys", "trust-too")},
    "JKS keytool of type PKCS12": _store("keytool.jks", "PKCS12"),
    "JKS with a password of the key": _store("keytool-key-password.jks", "JKS", PASSWORD, KEY_PASSWORD),
    "JKS without the password of the key": _store("keytool-key-password.jks", "JKS"),
    "JKS wrong password": _store("keytool.jks", "JKS", "wrong"),
    "JKS trust store": _store("trust.jks", "JKS"),
    "JCEKS": _store("keytool.jceks", "JCEKS"),
    **{
        f"trust PEM {name}": _trust(f"{name}-trusted.crt", "PEM")
        for name in ("several", "explained", "twice", "intermediate-alone", "damaged", "no")
    },
    "trust PEM TRUSTED CERTIFICATE": _trust("trusted-certificate.crt", "PEM"),
    "trust inline": _MUTUAL | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "{file several-trusted.crt}"},
    "trust PKCS12 keytool": _trust("trust.p12", "PKCS12", PASSWORD),
    "trust PKCS12 keytool of type JKS": _trust("trust.p12", "JKS", PASSWORD),
    "trust PKCS12 keytool, no password": _trust("trust.p12", "PKCS12"),
    "trust PKCS12 openssl": _trust("openssl-trust.p12", "PKCS12", PASSWORD),
    "trust PKCS12 with a key": _trust("keytool.p12", "PKCS12", PASSWORD),
    "trust PKCS12 with a key and a certificate": _trust("trust-too.p12", "PKCS12", PASSWORD),
    "trust PKCS12 wrong password": _trust("trust.p12", "PKCS12", "wrong"),
    "trust JKS": _trust("trust.jks", "JKS", PASSWORD),
    "trust JKS of type PKCS12": _trust("trust.jks", "PKCS12", PASSWORD),
    "trust JKS, no password": _trust("trust.jks", "JKS"),
    "trust JKS with a key and a certificate": _trust("trust-too.jks", "JKS", PASSWORD),
}


def properties_of(case: str, folder: Path, prefix: str = "") -> dict[str, str]:
    """Return the properties of a case, with the prefix of a listener."""
    return {f"{prefix}{name}": _text(value, folder) for name, value in CASES[case].items()}


def _text(value: str, folder: Path) -> str:
    if value.startswith("{F}"):
        return value.replace("{F}", str(folder))
    kind, _, file = value.strip("{}").partition(" ")
    if not value.startswith("{"):
        return value
    text = (folder / file).read_bytes().decode()
    start = text.index("-----BEGIN CERT") if kind == "chain" else 0
    return text[start : text.index("-----BEGIN CERT")] if kind == "key" else text[start:]


def client_context(folder: Path, client: str = "") -> ssl.SSLContext:
    """Return the TLS of a client that trusts the root, and has the certificate of `client`."""
    context = ssl.create_default_context(cafile=str(folder / "root.crt"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python sets it from 3.13 on; Java's clients do not ask for key identifiers
    if client:
        context.load_cert_chain(str(folder / f"{client}.pem"))
    return context


def seen(case: str, connect: Callable[[str], Any]) -> Any:
    """Return what clients see. `connect` returns the names that a client is sent, or raises OSError."""
    found = {}
    for client in CLIENTS if "ssl.client.auth" in CASES[case] else ("",):
        try:
            found[client] = connect(client)
        except ssl.SSLCertVerificationError as error:
            found[client] = error.verify_message
        except OSError:
            found[client] = "refused"
    if len(found) == 1:
        return found[""]
    return sorted(client for client, names in found.items() if names != "refused")


def common_names(chain: Iterable[Any]) -> list[str]:
    """Return the names of OpenSSL's certificates."""
    return [dict(pair[0] for pair in each.get_info()["subject"])["commonName"] for each in chain]
