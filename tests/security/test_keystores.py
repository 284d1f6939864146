"""Key stores of all formats: those that keytool and openssl write, damaged ones, and wrong passwords."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key
from cryptography.x509 import load_der_x509_certificate

from minibroker.config.secret import Secret
from minibroker.security import keystores
from minibroker.security.certificates import Authority, write_keystore
from minibroker.security.java_keystore import KeyStoreError, decrypt_key, read_java_keystore

_CONTENT = json.loads((Path(__file__).parents[1] / "golden" / "keystores_java_17.json").read_text())
STORES = {name: base64.b64decode(text) for name, text in _CONTENT.items() if name != "provenance"}
STORE, KEY, WRONG = Secret("secret1"), Secret("secret2"), Secret("wrong")


def test_java_key_stores() -> None:
    store = read_java_keystore(STORES["key.jks"], STORE)
    assert [key.alias for key in store.keys] == ["broker"]
    private = load_der_private_key(decrypt_key(store.keys[0], KEY), None)
    certificate = load_der_x509_certificate(store.keys[0].chain[0])
    assert certificate.subject.rfc4514_string() == "CN=jks,O=Mini"
    assert private.public_key() == certificate.public_key()
    assert keystores.certificates_of_store(STORES["trust.jks"], STORE) == (STORES["c.der"],)
    assert keystores.certificates_of_store(STORES["trust.jks"], None) == (STORES["c.der"],)  # unchecked, as in Java


def test_formats_are_known_by_their_first_bytes() -> None:
    for name, password in (("key.jks", KEY), ("key.p12", None)):
        material = keystores.key_of_store(STORES[name], STORE, password)
        assert material.chain == (STORES["c.der"],)
        load_pem_private_key(material.key.reveal().encode(), None)
        assert material.password is None
    assert keystores.certificates_of_store(STORES["trust.p12"], STORE) == (STORES["c.der"],)


@pytest.mark.parametrize("name", ["key.jks", "key.p12"])
def test_a_wrong_password_is_named_and_never_shown(name: str) -> None:
    with pytest.raises(KeyStoreError, match="password is wrong") as refused:
        keystores.key_of_store(STORES[name], WRONG, None)
    assert "wrong-" not in str(refused.value)
    if name == "key.jks":
        with pytest.raises(KeyStoreError, match="the password of the key is wrong"):
            keystores.key_of_store(STORES[name], STORE, WRONG)


def test_what_is_no_key_store() -> None:
    for data, problem in (
        (STORES["x.jceks"], "JCEKS is not read"),
        (b"-----BEGIN CERTIFICATE-----", "set the type to PEM"),
        (b"hello", "neither PKCS12 nor JKS"),
        (b"", "neither"),
        (STORES["trust.jks"], "no private key"),
    ):
        with pytest.raises(KeyStoreError, match=problem):
            keystores.key_of_store(data, STORE, None)
    with pytest.raises(KeyStoreError, match="no trusted certificate"):
        keystores.certificates_of_store(STORES["key.jks"], STORE)
    with pytest.raises(KeyStoreError, match="no trusted certificate"):
        keystores.certificates_of_store(STORES["key.p12"], STORE)


def test_every_damaged_byte_and_every_torn_file_is_refused() -> None:
    data = STORES["key.jks"]
    for place in range(4, len(data), 7):
        torn, damaged = data[:place], data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]
        for each in (torn, damaged):
            with pytest.raises(KeyStoreError):
                read_java_keystore(each, STORE)
        for each in (torn, damaged):  # without a password nothing vouches for the bytes
            try:
                found = read_java_keystore(each, None)
            except KeyStoreError:
                continue
            assert len(found.keys) <= 1


def test_pem_in_any_order_and_with_encrypted_keys(tmp_path: Path) -> None:
    authority = Authority.create()
    issued = authority.issue("broker", ["localhost"])
    for text in (issued.key_pem() + issued.certificate_pem, "words\n" + issued.certificate_pem.replace("\n", "\r\n") + issued.key_pem()):
        material = keystores.key_of_pem(Secret(text), text, None)
        assert keystores.pem_of(material.chain) == issued.certificate_pem
        assert material.password is None
    encrypted = issued.key_pem(STORE)
    with pytest.raises(KeyStoreError, match=r"encrypted, and ssl\.key\.password is not set"):
        keystores.key_of_pem(Secret(encrypted), issued.certificate_pem, None)
    assert keystores.key_of_pem(Secret(encrypted), issued.certificate_pem, STORE).password == STORE
    for text, problem in ((issued.certificate_pem, "no private keys"), (issued.key_pem() * 2, "2 private keys")):
        with pytest.raises(KeyStoreError, match=problem):
            keystores.key_of_pem(Secret(text), issued.certificate_pem, None)
    with pytest.raises(KeyStoreError, match="no certificate"):
        keystores.certificates_of_pem(issued.key_pem())
    write_keystore(tmp_path / "k.p12", issued, authority, STORE)
    assert (tmp_path / "k.p12").stat().st_mode & 0o777 == 0o600
    chain = keystores.key_of_store((tmp_path / "k.p12").read_bytes(), STORE, None).chain
    assert keystores.pem_of(chain) == issued.certificate_pem + authority.issued.certificate_pem


def test_files(tmp_path: Path) -> None:
    with pytest.raises(KeyStoreError, match="No such file"):
        keystores.read_file(str(tmp_path / "missing"))
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(keystores.SIZE_MAX + 1)
    with pytest.raises(KeyStoreError, match="more than"):
        keystores.read_file(str(large))


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    assert len(body) < 128
    return bytes([tag, len(body)]) + body


def encrypted(rounds: int) -> Secret:
    """A key whose password is hashed so many times (PBES2 with PBKDF2), and whose data are nonsense."""
    oid = bytes.fromhex
    derived = der(0x30, der(6, oid("2a864886f70d01050c")), der(0x30, der(4, b"salt"), der(2, rounds.to_bytes(5, "big"))))
    cipher = der(0x30, der(6, oid("60864801650304012a")), der(4, bytes(16)))
    key = der(0x30, der(0x30, der(6, oid("2a864886f70d01050d")), der(0x30, derived, cipher)), der(4, bytes(32)))
    return Secret(f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{base64.b64encode(key).decode()}\n-----END ENCRYPTED PRIVATE KEY-----\n")


def test_keys_that_cost_much_to_decrypt_are_refused() -> None:
    chain = Authority.create().issue("broker", ["localhost"]).certificate_pem
    assert keystores.key_of_pem(encrypted(1_000_000), chain, STORE).key.reveal() == encrypted(1_000_000).reveal().strip()
    with pytest.raises(KeyStoreError, match="needs more than 1000000 rounds of hashing"):
        keystores.key_of_pem(encrypted(1_000_001), chain, STORE)
    for damaged in ("AAAA", "MIIB", "====", ""):
        text = f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{damaged}\n-----END ENCRYPTED PRIVATE KEY-----\n"
        with pytest.raises(KeyStoreError, match="the private key is damaged"):
            keystores.key_of_pem(Secret(text), chain, STORE)
