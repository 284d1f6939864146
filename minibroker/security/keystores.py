"""Key stores and trust stores: PEM, PKCS12 and JKS, from files or inline, as PEM texts that OpenSSL takes.

A file of type JKS or PKCS12 is read by its first bytes, because Java reads either as either (DualFormatJKS). PEM needs the standard
library only. PKCS12 and JKS need `cryptography`. Formats and rules are those of Kafka's DefaultSslEngineFactory and PemStore.
"""

from __future__ import annotations

import binascii
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.config.secret import Secret
from minibroker.errors import ConfigurationError
from minibroker.security import java_keystore, needs_extra
from minibroker.security.certificate_order import in_order
from minibroker.security.der import content, integers, items
from minibroker.security.java_keystore import KeyStoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import Certificate

PEM, PKCS12, JKS = TYPES = ("PEM", "PKCS12", "JKS")
SIZE_MAX: Final = 16 * 1024 * 1024  #: bytes of a store; those of operating systems have 200 kB
#: Rounds of hashing that a password of a key may need. A million take about 0.3 s, in which the broker serves no request.
_ROUNDS_MAX: Final = 1_000_000
_ALGORITHM_MAX: Final = 1024  #: bytes of the description of a key's encryption; usual ones have 100
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_CERTIFICATES: Final = frozenset({"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"})
_ENCRYPTED: Final = "ENCRYPTED PRIVATE KEY"
_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")  #: OBJECT IDENTIFIER 1.2.840.113549.1.5.13


class KeyMaterial(NamedTuple):
    """A private key with its certificate chain, the broker's own certificate first."""

    key: Secret  #: PEM; encrypted if `password` is set
    chain: tuple[bytes, ...]  #: DER
    password: Secret | None  #: of the key
    alias: str = "kafka"  #: the name of the key in its store; PEM has none, and Kafka calls it this


def read_file(path: str) -> bytes:
    """Read a store. Raise KeyStoreError if that fails or it is too large."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise KeyStoreError(f"{path}: {error.strerror or error}") from error
    if len(data) > SIZE_MAX:
        raise KeyStoreError(f"{path} has more than {SIZE_MAX} bytes")
    return data


def key_of_pem(key_text: Secret, chain_text: str, password: Secret | None) -> KeyMaterial:
    """Return the key of one PEM text, and the certificates of another in their order; both may be the same text.

    Raises:
        KeyStoreError: A part is missing, or a password is needed or not.
    """
    keys = [found for found in _BLOCK.finditer(key_text.reveal()) if found[1].endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise KeyStoreError(f"{len(keys) or 'no'} private keys found: exactly one is needed (BEGIN PRIVATE KEY)")
    chain = in_order(certificates_of_pem(chain_text))
    key = Secret("\n".join(line.strip() for line in keys[0][0].splitlines()))  # an indented key, as in YAML
    is_encrypted = keys[0][1] == _ENCRYPTED or "Proc-Type: 4,ENCRYPTED" in keys[0][0]
    if not is_encrypted:
        return KeyMaterial(key, chain, None)
    if not password:
        raise KeyStoreError("the private key is encrypted, and ssl.key.password is not set")
    if keys[0][1] == _ENCRYPTED and not _check_encryption(keys[0]):
        plain = _decrypted(key, password)
        if plain is not None:
            return KeyMaterial(plain, chain, None)
    return KeyMaterial(key, chain, password)


def certificates_of_pem(text: str) -> tuple[bytes, ...]:
    """Return the certificates of a PEM text as DER. Raise KeyStoreError if there are none, or one is damaged."""
    found = []
    for block in _BLOCK.finditer(text):
        if block[1] in _CERTIFICATES:
            try:
                found.append(_der_of(block))
            except binascii.Error as error:
                raise KeyStoreError(f"certificate {len(found) + 1} is damaged") from error
    if not found:
        raise KeyStoreError("no certificate found (BEGIN CERTIFICATE)")
    return tuple(found)


def _der_of(block: re.Match[str]) -> bytes:
    """Decode a block of PEM."""
    body = block[0].partition("-----\n")[2] or block[0].partition("-----\r\n")[2] or block[0][len(block[1]) + 16 :]
    return binascii.a2b_base64(body.partition("-----END")[0])


def _check_encryption(block: re.Match[str]) -> bool:
    """Check that an encrypted key (PKCS#8 EncryptedPrivateKeyInfo: algorithm, data) costs little to decrypt; a client may send it.

    Returns:
        Whether it is encrypted by PBES2, which OpenSSL reads. Of the older PBES1 it reads only what its provider `legacy` is loaded for.
    """
    try:
        algorithm = items(content(_der_of(block)))[0]
        numbers = list(integers(algorithm)) if len(algorithm) <= _ALGORITHM_MAX else [_ROUNDS_MAX + 1]
    except (IndexError, binascii.Error):
        raise KeyStoreError("the private key is damaged") from None
    if max(numbers, default=0) > _ROUNDS_MAX:
        raise KeyStoreError(f"the encryption of the private key needs more than {_ROUNDS_MAX} rounds of hashing")
    return _PBES2 in algorithm


def _decrypted(key: Secret, password: Secret) -> Secret | None:
    """Return a key that is encrypted by PBES1 as plain text; None without `cryptography`. Raise KeyStoreError if the password is wrong."""
    try:
        library = _library("a key that is encrypted by PBES1")
    except ConfigurationError:
        return None
    try:
        return _plain(library.load_pem_private_key(key.reveal().encode(), password.reveal().encode()), library)
    except ValueError as error:
        raise KeyStoreError("the password of the key is wrong, or its encryption is not supported") from error


def _plain(key: Any, library: Any) -> Secret:
    """Return a key of `cryptography` as PEM text that is not encrypted."""
    return Secret(key.private_bytes(library.Encoding.PEM, library.PrivateFormat.PKCS8, library.NoEncryption()).decode())


def _library(purpose: str) -> Any:
    """Return the module `serialization` of `cryptography`, with `pkcs12`. Raise ConfigurationError if it is not installed."""
    try:
        import cryptography.hazmat.primitives.serialization.pkcs12  # noqa: PLC0415  optional
    except ImportError:
        raise needs_extra(purpose) from None
    return cryptography.hazmat.primitives.serialization


def key_of_store(data: bytes, password: Secret, key_password: Secret | None) -> KeyMaterial:
    """Return the first private key of a PKCS12 or JKS file.

    Raises:
        KeyStoreError: The file or a password is wrong, or there is no key.
        ConfigurationError: `cryptography` is not installed.
    """
    _check_magic(data)
    if data.startswith(java_keystore.MAGIC):
        store = java_keystore.read_java_keystore(data, password)
        if not store.keys:
            raise KeyStoreError("the file has no private key")
        key = java_keystore.decrypt_key(store.keys[0], key_password or password)
        return KeyMaterial(Secret(_pem("PRIVATE KEY", key)), store.keys[0].chain, None, store.keys[0].alias)
    library = _library("a PKCS12 key store")
    try:
        found = library.pkcs12.load_pkcs12(data, password.reveal().encode())
    except ValueError as error:
        raise KeyStoreError("the password is wrong, or the file is damaged") from error
    if found.key is None or found.cert is None:
        raise KeyStoreError("the file has no private key with a certificate")
    chain = _chain(found.cert.certificate, [each.certificate for each in found.additional_certs], library.Encoding.DER)
    return KeyMaterial(_plain(found.key, library), chain, None, (found.cert.friendly_name or b"1").decode("utf-8", "replace"))


def certificates_of_store(data: bytes, password: Secret | None) -> tuple[bytes, ...]:
    """Return all certificates of a PKCS12 or JKS trust store as DER; the same errors as `key_of_store`."""
    _check_magic(data)
    if data.startswith(java_keystore.MAGIC):
        found = java_keystore.read_java_keystore(data, password).trusted
    else:
        library = _library("a PKCS12 trust store")
        try:
            store = library.pkcs12.load_pkcs12(data, None if password is None else password.reveal().encode())
        except ValueError as error:
            if password is None:
                raise KeyStoreError("the file is encrypted, and its password is not set") from error
            raise KeyStoreError("the password is wrong, or the file is damaged") from error
        others = [each.certificate for each in store.additional_certs]
        if store.cert is not None:  # an entry with a key, whose certificates are not trusted
            own = _chain(store.cert.certificate, others, library.Encoding.DER)
            others = [each for each in others if each.public_bytes(library.Encoding.DER) not in own]
        found = tuple(each.public_bytes(library.Encoding.DER) for each in others)
    if not found:
        raise KeyStoreError("the file has no trusted certificate")
    return found


def pem_of(certificates: tuple[bytes, ...]) -> str:
    """Return DER certificates as one PEM text."""
    return "".join(ssl.DER_cert_to_PEM_cert(each) for each in certificates)


def _pem(label: str, der: bytes) -> str:
    body = binascii.b2a_base64(der, newline=False).decode()
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _check_magic(data: bytes) -> None:
    if data.startswith(java_keystore.MAGIC_JCEKS):
        raise KeyStoreError("JCEKS is not read: convert the file with keytool -importkeystore -deststoretype PKCS12")
    if data.lstrip().startswith(b"-----BEGIN"):
        raise KeyStoreError("the file is PEM: set the type to PEM")
    if not data.startswith((java_keystore.MAGIC, b"\x30")):
        raise KeyStoreError("the file is neither PKCS12 nor JKS")


def _chain(certificate: Certificate, others: list[Certificate], der: Encoding) -> tuple[bytes, ...]:
    """Return a certificate and its issuers in order. A file may have more certificates than the chain."""
    chain, left = [certificate], list(others)
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return tuple(each.public_bytes(der) for each in chain)
