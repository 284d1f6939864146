"""Key stores and trust stores as people have them: made by `cryptography`, openssl and keytool for captures/keystores.py.

The chain is root -> intermediate -> leaf. All certificates are valid until 2126. Clients trust the root.
"""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

PASSWORD, KEY_PASSWORD, ODD_PASSWORD = "store-secret", "key-secret", "pässwörd"
SERVER: Final = ("localhost",)
_NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_END: Final = dt.datetime(2126, 1, 1, tzinfo=dt.UTC)
_CURVES: Final = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}


class Person:
    """A key and its certificate."""

    def __init__(self, name: str, issuer: Person | None, key: Any, *, is_authority: bool = False, ends: dt.datetime = _END) -> None:
        self.key = key
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(
            issuer_name=issuer.name if issuer else self.name, subject_name=self.name, public_key=key.public_key(),
            serial_number=x509.random_serial_number(), not_valid_before=_NOW, not_valid_after=ends,
        ).add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)  # fmt: skip
        if not is_authority:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in SERVER]), critical=False)
        self.certificate = builder.sign(issuer.key if issuer else key, hashes.SHA256())

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
        """Return the key, not encrypted."""
        return str(self.key.private_bytes(Encoding.PEM, form, NoEncryption()).decode())


def _ec() -> Any:
    return ec.generate_private_key(ec.SECP256R1())


class StoreFiles:
    """Makes all files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = Person("root", None, _ec(), is_authority=True)
        self.intermediate = Person("intermediate", self.root, _ec(), is_authority=True)
        keys = {
            "rsa": rsa.generate_private_key(65537, 2048), "rsa4096": rsa.generate_private_key(65537, 4096),
            **{name: ec.generate_private_key(curve) for name, curve in _CURVES.items()}, "ed25519": ed25519.Ed25519PrivateKey.generate(),
        }  # fmt: skip
        self.leaves = {name: Person("broker", self.intermediate, key) for name, key in keys.items()}
        self.other_root = Person("other root", None, _ec(), is_authority=True)
        self.third_root = Person("third root", None, _ec(), is_authority=True)
        self.clients = {
            "client": Person("client", self.root, _ec()), "other": Person("other", self.other_root, _ec()),
            "stranger": Person("stranger", Person("stranger root", None, _ec(), is_authority=True), _ec()),
        }  # fmt: skip
        self._chain = (self.intermediate.pem, self.root.pem)

    def write(self) -> None:
        """Write everything that the cases name, and some more files to make them of."""
        self._put("root.crt", self.root.pem)
        for name, client in self.clients.items():
            self._put(f"{name}.pem", client.key_pem() + client.pem)
        self._put("parts.crt", "".join(self._chain))
        self._write_pem()
        self._write_encrypted_pem()
        self._write_pkcs12()
        self._write_java()
        self._write_trust()

    def _put(self, name: str, text: str) -> None:
        (self.folder / name).write_bytes(text.encode("utf-8"))

    def _write_pem(self) -> None:
        """PEM files with keys that are not encrypted."""
        leaf, (intermediate, root) = self.leaves["p256"], self._chain
        key, own = leaf.key_pem(), leaf.pem
        expired = Person("broker", self.intermediate, leaf.key, ends=_NOW + dt.timedelta(days=1))
        for name, each in self.leaves.items():
            self._put(f"{name}.pem", each.key_pem() + each.pem + intermediate)
        for name, text in {
            "with-root": key + own + intermediate + root,
            "certificates-first": own + intermediate + key,
            "key-in-the-middle": own + key + intermediate,
            "reversed": key + root + intermediate + own,
            "intermediate-first": key + intermediate + own,
            "issuers-out-of-order": key + own + root + intermediate,
            "leaf-alone": key + own,
            "a-stranger-behind": key + own + intermediate + self.other_root.pem,
            "a-stranger-first": key + self.other_root.pem + own + intermediate,
            "leaf-twice": key + own + own + intermediate,
            "of-another-key": self.leaves["p384"].key_pem() + own + intermediate,
            "expired": key + expired.pem + intermediate,
            "two-keys": key + self.leaves["p384"].key_pem() + own + intermediate,
            "no-certificate": key,
            "no-key": own + intermediate,
            "empty": "",
            "crlf": (key + own + intermediate).replace("\n", "\r\n"),
            "bom": "\ufeff" + key + own + intermediate,
            "indented": "".join(f"    {line}\n" for line in (key + own + intermediate).splitlines()),
            "without-last-newline": (key + own + intermediate).rstrip(),
            "pkcs1": self.leaves["rsa"].key_pem(PrivateFormat.TraditionalOpenSSL) + self.leaves["rsa"].pem + intermediate,
            "sec1": leaf.key_pem(PrivateFormat.TraditionalOpenSSL) + own + intermediate,
            "sec1-with-parameters": self._openssl("ecparam", "-name", "prime256v1")
            + leaf.key_pem(PrivateFormat.TraditionalOpenSSL) + own + intermediate,
            "damaged-certificate": key + own[:200] + own[210:] + intermediate,
            "damaged-key": key[:60] + key[64:] + own + intermediate,
        }.items():  # fmt: skip
            self._put(f"{name}.pem", text)
        self._put("explained.pem", key + self._openssl("x509", "-in", self._path("p256.pem"), "-text") + intermediate)

    def _write_encrypted_pem(self) -> None:
        """PEM files with encrypted keys."""
        (intermediate, _), rsa_leaf = self._chain, self.leaves["rsa"]
        for name, options in {
            "pbes2-aes256": ["pkcs8", "-topk8", "-v2", "aes-256-cbc"],
            "pbes2-aes128-sha1": ["pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"],
            "pbes2-3des": ["pkcs8", "-topk8", "-v2", "des3"],
            "pbes2-scrypt": ["pkcs8", "-topk8", "-scrypt"],
            "pbes1-3des": ["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"],
            "pbes1-md5-des": ["pkcs8", "-topk8", "-v1", "PBE-MD5-DES", "-provider", "legacy", "-provider", "default"],
            "pbes1-rc2": ["pkcs8", "-topk8", "-v1", "PBE-SHA1-RC2-40", "-provider", "legacy", "-provider", "default"],
            "pkcs1-aes256": ["rsa", "-aes256", "-traditional"],
            "pkcs1-3des": ["rsa", "-des3", "-traditional"],
        }.items():
            key = self._openssl(*options, "-in", self._path("rsa.pem"), "-passout", f"pass:{KEY_PASSWORD}")
            self._put(f"{name}.pem", key + rsa_leaf.pem + intermediate)

    def _write_pkcs12(self) -> None:
        """PKCS12 files of openssl."""
        legacy = ("-legacy", "-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-RC2-40")
        for name, leaf, options in (
            ("openssl", "rsa", []),
            ("openssl-legacy", "rsa", [*legacy]),
            ("openssl-3des", "rsa", ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1"]),
            ("openssl-plain-certificates", "rsa", ["-certpbe", "NONE"]),
            ("openssl-plain", "rsa", ["-certpbe", "NONE", "-keypbe", "NONE"]),
            ("openssl-no-mac", "rsa", ["-nomac"]),
            ("openssl-named", "rsa", ["-name", "my broker"]),
            ("openssl-p256", "p256", []),
            ("openssl-ed25519", "ed25519", []),
            ("openssl-leaf-alone", "leaf", []),
        ):
            chain = [] if leaf == "leaf" else ["-certfile", self._path("parts.crt")]
            key = "leaf-alone" if leaf == "leaf" else leaf
            self._openssl(
                "pkcs12", "-export", "-in", self._path(f"{key}.pem"), *chain, "-out", self._path(f"{name}.p12"),
                "-passout", f"pass:{PASSWORD}", *options,
            )  # fmt: skip
        for name, password in (("openssl-odd-password", ODD_PASSWORD), ("openssl-empty-password", "")):
            self._openssl(
                "pkcs12", "-export", "-in", self._path("p256.pem"), "-out", self._path(f"{name}.p12"), "-passout", f"pass:{password}"
            )

    def _write_java(self) -> None:
        """PKCS12 and JKS files of keytool, from a file of openssl."""
        source = ["-srckeystore", self._path("openssl-named.p12"), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
        second = ["-srckeystore", self._path("openssl-p256.p12"), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD, "-srcalias", "1"]
        legacy = "-J-Dkeystore.pkcs12.legacy"
        for name, options in {
            "keytool.p12": ["-deststoretype", "PKCS12"],
            "keytool-legacy.p12": ["-deststoretype", "PKCS12", legacy],
            "keytool.jks": ["-deststoretype", "JKS"],
            "keytool-key-password.jks": ["-deststoretype", "JKS", "-destkeypass", KEY_PASSWORD, "-srcalias", "my broker"],
            "keytool.jceks": ["-deststoretype", "JCEKS"],
            "two-keys.p12": ["-deststoretype", "PKCS12"],
            "two-keys.jks": ["-deststoretype", "JKS"],
            "trust-too.p12": ["-deststoretype", "PKCS12"],
            "trust-too.jks": ["-deststoretype", "JKS"],
        }.items():
            self._keytool("-importkeystore", *source, "-destkeystore", self._path(name), "-deststorepass", PASSWORD, *options)
            if name.startswith("two-keys"):
                self._keytool("-importkeystore", *second, "-destkeystore", self._path(name), "-deststorepass", PASSWORD, "-destalias", "b")
            if name.startswith("trust-too"):
                self._import(name, self.other_root, "other")

    def _write_trust(self) -> None:
        """Trust stores with several authorities."""
        roots = [self.third_root, self.root, self.other_root]
        texts = [each.pem for each in roots]
        for name, text in {
            "several-trusted": "".join(texts),
            "explained-trusted": "# our authorities\n" + "\nthe next one:\n".join(texts),
            "twice-trusted": "".join([*texts, *texts]),
            "trusted-certificate": "".join(text.replace("CERTIFICATE", "TRUSTED CERTIFICATE") for text in texts),
            "intermediate-alone-trusted": self.clients["client"].pem,
            "damaged-trusted": texts[0] + texts[1][:200] + texts[1][210:] + texts[2],
            "no-trusted": "# nothing\n",
        }.items():
            self._put(f"{name}.crt", text)
        for name, options in {"trust.p12": ["-storetype", "PKCS12"], "trust.jks": ["-storetype", "JKS"]}.items():
            for index, each in enumerate(roots):
                self._import(name, each, f"ca{index}", *options)
        self._openssl(
            "pkcs12", "-export", "-nokeys", "-in", self._path("several-trusted.crt"), "-out", self._path("openssl-trust.p12"),
            "-passout", f"pass:{PASSWORD}",
        )  # fmt: skip

    def _import(self, store: str, trusted: Person, alias: str, *options: str) -> None:
        self._put("imported.crt", trusted.pem)
        self._keytool(
            "-importcert", "-noprompt", "-file", self._path("imported.crt"), "-alias", alias, "-keystore", self._path(store),
            "-storepass", PASSWORD, *options,
        )  # fmt: skip

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _openssl(self, *arguments: str) -> str:
        return _output("openssl", *arguments)

    def _keytool(self, *arguments: str) -> None:
        _output("keytool", *arguments)


def _output(program: str, *arguments: str) -> str:
    done = subprocess.run([shutil.which(program) or program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout
