"""Listeners with TLS and SASL of an attacked broker: their properties, certificates and users."""

from __future__ import annotations

import contextlib
import json
import ssl
import struct
from pathlib import Path
from typing import Final

import frames
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from peers import free_port

from tests.support.certificates import Authority

USER: Final = "alice"
PASSWORD: Final = "secret"  # noqa: S105  of the attacked broker only
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
_SECURITY: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "plain": f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required;",
    "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
}


class SecuredListeners:
    """SSL, SASL_PLAINTEXT and SASL_SSL listeners in addition to the plain one."""

    def __init__(self, folder: Path, plain_port: int) -> None:
        folder.mkdir()
        self.plain = plain_port
        self.ssl, self.sasl, self.sasl_ssl = free_port(), free_port(), free_port()
        authority = Authority(folder)
        self.ca = authority.file
        self.key = rsa.generate_private_key(65537, 2048)  #: signs tokens; the broker has its public key
        self._broker = authority.issue("broker").file
        self._jwks = folder / "jwks.json"
        self._jwks.write_text(self._public_keys())

    def properties(self) -> dict[str, str]:
        """Return the properties of the broker."""
        ports = {"PLAINTEXT": self.plain, "SSL": self.ssl, "SASL_PLAINTEXT": self.sasl, "SASL_SSL": self.sasl_ssl}
        found = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": self._jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            found |= {f"{prefix}.{mechanism}.sasl.jaas.config": text for mechanism, text in _MODULES.items()}
            handler = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            found[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = handler
        return found

    def _public_keys(self) -> str:
        from jwt.algorithms import RSAAlgorithm  # noqa: PLC0415  only one attack needs tokens

        key = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return json.dumps({"keys": [{"kid": "one", **key}]})

    def public_pem(self) -> bytes:
        """Return the public key of tokens as PEM, which an attacker may use as an HMAC secret."""
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def context(self) -> ssl.SSLContext:
        """Return what a client needs to shake hands."""
        return ssl.create_default_context(cafile=str(self.ca))

    def hello(self) -> bytes:
        """Return the first bytes of a client's handshake."""
        outgoing = ssl.MemoryBIO()
        client = self.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()


def handshake(mechanism: str) -> bytes:
    """Return a SaslHandshake 1."""
    return frames.frame(17, 1, frames.string(mechanism.encode()))


def authenticate(token: bytes) -> bytes:
    """Return a SaslAuthenticate 0."""
    return frames.frame(36, 0, struct.pack(">i", len(token)) + token)
