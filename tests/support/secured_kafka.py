"""Apache Kafka with a listener of each security protocol, users, an authorizer and delegation tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.support.certificates import Authority
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port

SUPER_USER, PASSWORD = "admin", "adm1n pass, with=marks"  #: of every mechanism but OAUTHBEARER, which takes any name
LISTENERS = {"SASL_PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SSL", "SASL_SSL": "SASL_SSL", "MUTUAL": "SSL", "STRANGER": "SSL", "EXPIRED": "SSL"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MECHANISMS = {"PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE, "OAUTHBEARER": OAUTHBEARER_MODULE}


class SecuredKafka:
    """The process, its addresses by listener, and the authority of its certificates.

    Clients of PLAINTEXT are super users as well. STRANGER has a certificate for another host name, EXPIRED one that is out of date,
    MUTUAL requires a certificate of the client.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.addresses = {name: f"localhost:{free_port()}" for name in LISTENERS}
        listeners = [f"{name}://{address}" for name, address in self.addresses.items()]
        self._process = KafkaProcess(folder, settings=_settings(self.authority), listeners=listeners)
        self.addresses["PLAINTEXT"] = self._process.bootstrap

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__()


def _settings(authority: Authority) -> dict[str, str]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        "delegation.token.secret.key": "of the tests",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.stranger.ssl.keystore.location": str(authority.issue("stranger", ("broker.example",)).file),
        "listener.name.expired.ssl.keystore.location": str(authority.issue("expired", days=(-20, -10)).file),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, module in MECHANISMS.items():
            users = f' user_{SUPER_USER}="{PASSWORD}" user_alice="secret"' if mechanism == "PLAIN" else ""
            users += ' unsecuredLoginStringClaim_sub="broker"' if mechanism == "OAUTHBEARER" else ""
            settings[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = f"{module} required{users};"
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
    settings["listener.security.protocol.map"] = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    return settings
