"""Logins of real clients, right and wrong: a broker with good and bad listeners, and the cases that every client plays.

A program gets a JSON file with the cases, plays them all at once, and prints one line for each: its name, a tab, and "ok" or the
client's error. A case that is not refused writes one record to a topic and reads it.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from minibroker.client import access
from minibroker.client.client import Client
from minibroker.client.security.connecting import connector
from minibroker.security.certificates import Authority, write_folder, write_pem
from tests.support.broker_process import BrokerProcess
from tests.support.sasl_broker import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE

USER, PASSWORD, WRONG_PASSWORD = "alice", "hunter2-secret", "wr0ng-secret"
TOPIC = "logins"
_SIGNED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
RIGHT_KEY = "right"
_SIGNERS = {name: ec.generate_private_key(ec.SECP256R1()) for name in (RIGHT_KEY, "wrong")}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
LISTENERS = {  #: protocol and host of each
    "SASL_PLAINTEXT": ("SASL_PLAINTEXT", "127.0.0.1"), "SASL_PLAINTEXT6": ("SASL_PLAINTEXT", "[::1]"),
    "SASL_SSL": ("SASL_SSL", "127.0.0.1"), "SASL_SSL6": ("SASL_SSL", "[::1]"), "SIGNED": ("SASL_SSL", "127.0.0.1"),
    "SSL": ("SSL", "127.0.0.1"), "SSL6": ("SSL", "[::1]"),
    "MUTUAL": ("SSL", "127.0.0.1"), "MUTUAL6": ("SSL", "[::1]"),
    "EXPIRED": ("SSL", "127.0.0.1"), "EARLY": ("SSL", "127.0.0.1"), "ELSEWHERE": ("SSL", "127.0.0.1"),
}  # fmt: skip


class Login(NamedTuple):
    """A case; `name` says what is tried."""

    name: str
    listener: str
    mechanism: str = ""
    user: str = USER
    password: str = PASSWORD
    is_expired: bool = False  #: its token of OAUTHBEARER
    signer: str = ""  #: of that token: RIGHT_KEY, another one, or none
    has_delegation_token: bool = False
    ca: str = "ca.pem"
    certificate: str = ""
    is_refused: bool = True

    @property
    def protocol(self) -> str:
        return LISTENERS[self.listener][0] if self.listener in LISTENERS else "SSL"

    @property
    def token(self) -> str:
        """A token of OAUTHBEARER."""
        now_s = int(time.time())
        claims = {"sub": self.user, "iat": now_s - 90, "exp": now_s + (-60 if self.is_expired else 3600)}
        if self.signer:
            return str(jwt.encode(claims, _SIGNERS[self.signer], "ES256", headers={"kid": RIGHT_KEY}))
        parts = ({"alg": "none"}, claims)
        return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def _right() -> Iterator[Login]:
    for suffix, address in (("", "IPv4"), ("6", "IPv6")):
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
            for mechanism in MECHANISMS:
                yield Login(f"{protocol}-{mechanism}-{address}", protocol + suffix, mechanism, is_refused=False)
        yield Login(f"SSL-{address}", f"SSL{suffix}", is_refused=False)
        yield Login(f"mTLS-{address}", f"MUTUAL{suffix}", certificate="client.pem", is_refused=False)
    yield Login("signed-token", "SIGNED", "OAUTHBEARER", signer=RIGHT_KEY, is_refused=False)


RIGHT = tuple(_right())
#: Only Java and franz-go can say that a password is a token.
DELEGATED = tuple(
    Login(f"delegation-token-{mechanism}", "SASL_SSL", mechanism, has_delegation_token=True, is_refused=False) for mechanism in SCRAM
)
WRONG = (
    *(Login(f"wrong-password-{mechanism}", "SASL_SSL", mechanism, password=WRONG_PASSWORD) for mechanism in MECHANISMS[:3]),
    *(Login(f"unknown-user-{mechanism}", "SASL_SSL", mechanism, user="mallory") for mechanism in MECHANISMS[:3]),
    Login("expired-token", "SASL_SSL", "OAUTHBEARER", is_expired=True),
    Login("unsigned-token", "SIGNED", "OAUTHBEARER"),
    Login("forged-token", "SIGNED", "OAUTHBEARER", signer="wrong"),
    Login("expired-signed-token", "SIGNED", "OAUTHBEARER", signer=RIGHT_KEY, is_expired=True),
    Login("wrong-CA", "SSL", ca="other.pem"),
    Login("wrong-host-name", "ELSEWHERE"),
    Login("expired-certificate", "EXPIRED"),
    Login("early-certificate", "EARLY"),
    Login("TLS-to-PLAINTEXT", "PLAINTEXT"),
    Login("no-client-certificate", "MUTUAL"),
    Login("stranger's-certificate", "MUTUAL", certificate="stranger.pem"),
)


class LoginBroker:
    """The broker, its files, and the addresses of its listeners."""

    def __init__(self, folder: Path, process: BrokerProcess) -> None:
        self.folder = folder
        self.process = process
        self.delegation_token = ("", "")  #: its id, and the HMAC as a password

    def bootstrap(self, listener: str) -> str:
        """HOST:PORT of a listener."""
        return self.process.bootstrap_of(listener)

    def path(self, name: str) -> str:
        """A file's path; nothing if there is no name."""
        return str(self.folder / name) if name else ""

    def java_properties(self, case: Login) -> dict[str, str]:
        """Return the properties of a Java client, without those of OAUTHBEARER."""
        user, password = self._login(case)
        options = f'username="{user}" password="{password}"' + (' tokenauth="true"' if case.has_delegation_token else "")
        module = PLAIN_MODULE if case.mechanism == "PLAIN" else SCRAM_MODULE
        texts = {
            "security.protocol": case.protocol,
            "ssl.truststore.location": "" if case.protocol == "SASL_PLAINTEXT" else self.path(case.ca), "ssl.truststore.type": "PEM",
            "ssl.keystore.location": self.path(case.certificate), "ssl.keystore.type": "PEM" if case.certificate else "",
            "sasl.mechanism": case.mechanism,
            "sasl.jaas.config": f"{module} required {options};" if case.mechanism and case.mechanism != "OAUTHBEARER" else "",
        }  # fmt: skip
        return {name: text for name, text in texts.items() if text}

    def _login(self, case: Login) -> tuple[str, str]:
        return self.delegation_token if case.has_delegation_token else (case.user, case.password)

    def cases_file(self, cases: tuple[Login, ...]) -> Path:
        """Write the cases for a program."""
        texts = [
            {
                "Name": case.name, "Bootstrap": self.bootstrap(case.listener), "Protocol": case.protocol, "Mechanism": case.mechanism,
                "Token": case.token if case.mechanism == "OAUTHBEARER" else "", "DelegationToken": case.has_delegation_token,
                "User": self._login(case)[0], "Password": self._login(case)[1], "Java": self.java_properties(case),
                "Ca": "" if case.protocol == "SASL_PLAINTEXT" else self.path(case.ca), "Certificate": self.path(case.certificate),
                "Topic": TOPIC, "Refused": case.is_refused,
            }
            for case in cases
        ]  # fmt: skip
        file = self.folder / "cases.json"
        file.write_text(json.dumps(texts))
        return file


@contextmanager
def login_broker(folder: Path) -> Iterator[LoginBroker]:
    """Serve all listeners, with the topic and the users of the cases."""
    from confluent_kafka.admin import AdminClient, NewTopic, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    _write_certificates(folder)
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in _properties(folder).items()))
    with BrokerProcess(folder, "--config", str(file), "--log-level", "info", port=-1) as process:
        broker = LoginBroker(folder, process)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap("PLAINTEXT")})
        made = [*admin.create_topics([NewTopic(TOPIC, 1, 1)]).values()]
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            made += admin.alter_user_scram_credentials([change]).values()
        for future in made:
            future.result(60)
        broker.delegation_token = _create_token(broker)
        yield broker


def _create_token(broker: LoginBroker) -> tuple[str, str]:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    with Client(broker.bootstrap("SASL_PLAINTEXT"), connect=connector(login)) as client:
        made = access.create_token(client)
    return made.token_id, base64.b64encode(made.hmac).decode()


def _write_certificates(folder: Path) -> None:
    write_folder(folder, ["localhost", "127.0.0.1", "::1"], client_name=USER)
    authority, now = Authority.load(folder), datetime.now(UTC)
    hosts = ["localhost", "127.0.0.1"]
    write_pem(folder / "expired.pem", authority.issue("broker", hosts, valid_until=now - timedelta(days=1)), authority)
    early = authority.issue("broker", hosts, valid_from=now + timedelta(days=1))
    write_pem(folder / "early.pem", early, authority)
    write_pem(folder / "elsewhere.pem", authority.issue("broker", ["elsewhere.example"]), authority)
    other = Authority.create("other")
    (folder / "other.pem").write_text(other.issued.certificate_pem)
    key = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(_SIGNERS[RIGHT_KEY].public_key()))
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": RIGHT_KEY}]}))
    write_pem(folder / "stranger.pem", other.issue(USER, []), other)


def _properties(folder: Path) -> dict[str, str]:
    texts = {
        "listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *(f"{name}://{host}:0" for name, (_, host) in LISTENERS.items())]),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name, (protocol, _) in LISTENERS.items())]
        ),
        "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem"),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "delegation.token.secret.key": "of the tests",
        "listener.name.signed.oauthbearer.sasl.server.callback.handler.class": _SIGNED,
        "listener.name.signed.sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/jwks.json",
        # The authorizer is there for kafka-acls alone.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "allow.everyone.if.no.acl.found": "true",
        "super.users": f"User:{USER};User:ANONYMOUS;User:CN={USER}",
    }  # fmt: skip
    for name, (protocol, _) in LISTENERS.items():
        prefix = f"listener.name.{name.lower()}."
        if name.startswith("MUTUAL"):
            texts[f"{prefix}ssl.client.auth"] = "required"
        if name in ("EXPIRED", "EARLY", "ELSEWHERE"):
            texts[f"{prefix}ssl.keystore.location"] = str(folder / f"{name.lower()}.pem")
        if protocol.startswith("SASL"):
            texts[f"{prefix}plain.sasl.jaas.config"] = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
            texts[f"{prefix}oauthbearer.sasl.jaas.config"] = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="broker";'
            texts |= {f"{prefix}{mechanism.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;" for mechanism in SCRAM}
    return texts
