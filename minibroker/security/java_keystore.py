"""Read a Java key store of the old type JKS: private keys with their chains, and trusted certificates.

    u32 FEEDFEED   u32 version (1, 2)   u32 number of entries
    each entry:    u32 tag   UTF alias   u64 time
      tag 1, a key:          u32 size, EncryptedPrivateKeyInfo   u32 number of certificates   certificates
      tag 2, trusted:        a certificate
      a certificate:         UTF type (version 2 only)   u32 size   DER
    20 bytes: SHA-1 of the password as UTF-16, "Mighty Aphrodite", and everything before

A key is encrypted by a stream of SHA-1 (sun.security.provider.KeyProtector). Files are only read: keytool has written PKCS12 since Java 9.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from minibroker.config.secret import Secret

MAGIC: Final = b"\xfe\xed\xfe\xed"
MAGIC_JCEKS: Final = b"\xce\xce\xce\xce"
_DIGEST_SIZE: Final = 20
_SALT_SIZE: Final = 20
_ENTRIES_MAX: Final = 10_000
_KEY, _TRUSTED = 1, 2
_WHITENER: Final = b"Mighty Aphrodite"
#: OBJECT IDENTIFIER 1.3.6.1.4.1.42.2.17.1.1, Sun's key protection
_SUN_PROTECTION: Final = bytes.fromhex("060a2b060104012a02110101")


class KeyStoreError(Exception):
    """The file is damaged, is not of this format, or the password is wrong. The message has no secret."""


class StoredKey(NamedTuple):
    """A private key, still encrypted, and its certificate chain. All are DER."""

    alias: str
    encrypted: bytes
    chain: tuple[bytes, ...]


class JavaKeyStore(NamedTuple):
    """All entries of a file."""

    keys: tuple[StoredKey, ...]
    trusted: tuple[bytes, ...]  #: certificates as DER


def read_java_keystore(data: bytes, password: Secret | None) -> JavaKeyStore:
    """Parse a file. Without a password its integrity is not checked, as in Java.

    Raises:
        KeyStoreError: The file cannot be used.
    """
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    if password is not None:
        expected = hashlib.sha1(_java_password(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, digest):
            raise KeyStoreError("the password is wrong, or the file is damaged")
    reader = _Reader(body)
    try:
        magic, version, count = reader.take(4), reader.number(), reader.number()
        if magic != MAGIC or version not in {1, 2} or count > _ENTRIES_MAX:
            raise KeyStoreError("the file is not a Java key store of version 1 or 2")
        keys: list[StoredKey] = []
        trusted: list[bytes] = []
        for _ in range(count):
            tag, alias = reader.number(), reader.text()
            reader.take(8)  # when it was stored
            if tag == _KEY:
                encrypted = reader.sized()
                keys.append(StoredKey(alias, encrypted, tuple(reader.certificate(version) for _ in range(reader.count()))))
            elif tag == _TRUSTED:
                trusted.append(reader.certificate(version))
            else:
                raise KeyStoreError(f"the file has an entry of the unknown kind {tag}")
    except (struct.error, UnicodeDecodeError) as error:
        raise KeyStoreError("the file is damaged") from error
    return JavaKeyStore(tuple(keys), tuple(trusted))


def decrypt_key(key: StoredKey, password: Secret) -> bytes:
    """Return the private key as PKCS#8 DER, or raise KeyStoreError."""
    at = key.encrypted.find(_SUN_PROTECTION)
    if at < 0:
        raise KeyStoreError("the key is not encrypted as Java does it")
    protected = _octets_after(key.encrypted, at + len(_SUN_PROTECTION))
    salt, cipher, check = protected[:_SALT_SIZE], protected[_SALT_SIZE:-_DIGEST_SIZE], protected[-_DIGEST_SIZE:]
    secret, digest = _java_password(password), salt
    plain = bytearray()
    while len(plain) < len(cipher):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        plain += bytes(a ^ b for a, b in zip(cipher[len(plain) :], digest, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain, usedforsecurity=False).digest(), check):
        raise KeyStoreError("the password of the key is wrong")
    return bytes(plain)


def _octets_after(der: bytes, position: int) -> bytes:
    """Return the OCTET STRING after the algorithm, whose optional parameters are a NULL."""
    if der[position : position + 2] == b"\x05\x00":
        position += 2
    if der[position : position + 1] != b"\x04":
        raise KeyStoreError("the file is damaged")
    first = der[position + 1] if position + 1 < len(der) else 0
    start = position + 2
    if first >= 0x80:
        size = int.from_bytes(der[start : start + first - 0x80], "big")
        start += first - 0x80
    else:
        size = first
    octets = der[start : start + size]
    if len(octets) != size or size <= _SALT_SIZE + _DIGEST_SIZE:
        raise KeyStoreError("the file is damaged")
    return octets


def _java_password(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")


class _Reader:
    """A cursor over the entries."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise KeyStoreError("the file is damaged: it ends too early")
        piece = self._data[self._position : end]
        self._position = end
        return piece

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def count(self) -> int:
        count = self.number()
        if count > _ENTRIES_MAX:
            raise KeyStoreError("the file is damaged: it has too many certificates")
        return count

    def sized(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()  # X.509
        return self.sized()
