"""Certificates of a broker under test and of its clients, signed by an authority that lives as long as the broker's options.

Keys and certificates are PEM texts in the configuration of the broker and of clients. No file is
written.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from minibroker.security.certificates import Authority, Issued
from minibroker.security.tls import with_private_file

HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class Certificates:
    """An authority, and what it has signed."""

    def __init__(self, pem: Mapping[str, str] | None = None, *, is_mutual: bool = False) -> None:
        """Create an authority, or take the one of another process.

        Args:
            pem: what `to_json` returned there.
            is_mutual: whether clients need a certificate.
        """
        self.authority = Authority.create() if pem is None else Authority.of_pem(pem["certificate"], pem["key"])
        self.is_mutual = is_mutual
        self._clients: dict[str, Issued] = {}  #: by common name

    def to_json(self) -> dict[str, str]:
        """Encode the authority for the process of the broker."""
        return {"certificate": self.authority.issued.certificate_pem, "key": self.authority.issued.key_pem()}

    def broker_properties(self, listener_name: str) -> dict[str, str]:
        """Return the properties of a listener with a certificate for this host."""
        found = keystore(self.authority.issue("broker", HOSTS), self.authority)
        if self.is_mutual:
            # The common name is the user, as if it had logged in.
            found |= truststore(self.authority) | {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/"}
        return {f"listener.name.{listener_name.lower()}.{name}": value for name, value in found.items()}

    def java(self, user: str) -> dict[str, str]:
        """Return the properties of a Java client, with the certificate of a user if clients need one."""
        found = truststore(self.authority)
        return found | keystore(self._client(user), self.authority) if self.is_mutual else found

    def librdkafka(self, user: str) -> dict[str, str]:
        """Return the properties of a client of librdkafka."""
        found = {"ssl.ca.pem": self.authority.issued.certificate_pem}
        if self.is_mutual:
            issued = self._client(user)
            found |= {"ssl.certificate.pem": issued.certificate_pem, "ssl.key.pem": issued.key_pem()}
        return found

    def context(self, user: str) -> ssl.SSLContext:
        """Return the context of a Python client."""
        found = ssl.create_default_context(cadata=self.authority.issued.certificate_pem)
        if self.is_mutual:
            issued = self._client(user)
            with_private_file(issued.key_pem() + issued.certificate_pem, found.load_cert_chain)
        return found

    def _client(self, user: str) -> Issued:
        if user not in self._clients:
            self._clients[user] = self.authority.issue(user)
        return self._clients[user]


def keystore(issued: Issued, authority: Authority) -> dict[str, str]:
    """Return the properties of a key with its chain."""
    chain = issued.certificate_pem + authority.issued.certificate_pem
    return {"ssl.keystore.type": "PEM", "ssl.keystore.key": issued.key_pem(), "ssl.keystore.certificate.chain": chain}


def truststore(authority: Authority) -> dict[str, str]:
    """Return the properties of an authority that is trusted."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.issued.certificate_pem}
