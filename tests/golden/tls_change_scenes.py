"""Changes of TLS and SASL properties while a broker runs, for Apache Kafka (captures/tls_changes.py) and for minibroker to answer.

Each step is one change of the configs of broker 1. Its outcome is the error code and message, and what new connections of the listener
see: which certificate, with which version of TLS, and whether a client needs one.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from minibroker.schemas import k17_sasl_handshake as k17
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k36_sasl_authenticate as k36
from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.golden.sasl_scenes import Conversation
from tests.support.certificates import HERE, Authority, pkcs12_of

SET, DELETE, APPEND, SUBTRACT = range(4)
BROKER: Final = 4
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_STORE = "listener.name.tls.ssl.keystore.location"
_TRUST = "listener.name.tls.ssl.truststore.location"
_JAAS = "listener.name.sasl.plain.sasl.jaas.config"
PASSWORD = "of the store"


class Ports(NamedTuple):
    """The listeners. LOOSE allows other names in certificates; BARE has no trust store; SASL has users."""

    plain: int
    tls: int
    loose: int
    bare: int
    sasl: int


class Files:
    """The certificates of the scenes, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority, other = Authority(folder), Authority(folder, "ca2")
        for name in ("first", "second", "third", "fourth", "fifth"):
            self._issue(name)
        self._issue("other_name", "somebody")
        self._issue("fewer_hosts", hosts=("localhost",))
        self._issue("no_hosts", hosts=())
        self._issue("more_hosts", hosts=(*HERE, "broker.example"))
        issued = other.issue("broker")
        issued.file.rename(folder / "stranger.pem")
        (folder / "broken.pem").write_text("this is no key")
        issued = self._authority.issue("broker")
        (folder / "store.p12").write_bytes(pkcs12_of(issued, PASSWORD))
        issued.file.rename(folder / "store.pem")
        self.inline = issued
        texts = {each.stem: each.read_text() for each in self.folder.glob("*.pem")}
        self._texts = {name: text for name, text in texts.items() if "PRIVATE" in text}
        self._names = {_own_certificate(text): name for name, text in self._texts.items()}

    def _issue(self, file: str, name: str = "broker", hosts: tuple[str, ...] = HERE) -> None:
        self._authority.issue(name, hosts).file.rename(self.folder / f"{file}.pem")

    def replace(self, file: str, by: str) -> None:
        """Put the key and certificate of one file into another one."""
        (self.folder / f"{file}.pem").write_text(self._texts[by])

    def name_of(self, certificate: bytes) -> str:
        """Return the file that was created with a DER certificate."""
        return self._names[certificate]


def _own_certificate(text: str) -> bytes:
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :].partition(end)[0] + end + "\n")


def properties(ports: Ports, folder: Path) -> Mapping[str, str]:
    """Return the properties of the listeners, without those of Kafka's controller."""
    listeners = ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports._asdict().items()).replace("PLAIN:", "PLAINTEXT:")
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,LOOSE:SSL,BARE:SSL,SASL:SASL_PLAINTEXT",
        **{f"listener.name.{name}.ssl.keystore.type": "PEM" for name in ("tls", "loose", "bare")},
        **{f"listener.name.{name}.ssl.keystore.location": f"{folder}/first.pem" for name in ("tls", "loose", "bare")},
        **{f"listener.name.{name}.ssl.truststore.type": "PEM" for name in ("tls", "loose")},
        **{f"listener.name.{name}.ssl.truststore.location": f"{folder}/ca.pem" for name in ("tls", "loose")},
        "listener.name.loose.ssl.allow.dn.changes": "true",
        "listener.name.loose.ssl.allow.san.changes": "true",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        _JAAS: f'{_PLAIN} user_alice="secret";',
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": _SCRAM,
    }


Change = tuple[str, int, str | None]  #: name, operation, value; {F} is the folder


def set_(**values: str) -> list[Change]:
    """Set properties of the listener TLS; `_` stands for a dot."""
    return [(f"listener.name.tls.{name.replace('_', '.')}", SET, value) for name, value in values.items()]


#: label -> changes, in this order; each is asked with validate_only first
STEPS: Final[dict[str, list[Change]]] = {
    "another certificate": [(_STORE, SET, "{F}/second.pem")],
    "no such file": [(_STORE, SET, "{F}/none.pem")],
    "a file without a key": [(_STORE, SET, "{F}/broken.pem")],
    "a file with certificates only": [(_STORE, SET, "{F}/ca.pem")],
    "another name": [(_STORE, SET, "{F}/other_name.pem")],
    "fewer hosts": [(_STORE, SET, "{F}/fewer_hosts.pem")],
    "no hosts": [(_STORE, SET, "{F}/no_hosts.pem")],
    "more hosts": [("listener.name.bare.ssl.keystore.location", SET, "{F}/more_hosts.pem")],
    "back to fewer hosts": [("listener.name.bare.ssl.keystore.location", SET, "{F}/second.pem")],
    "of another authority": [(_STORE, SET, "{F}/stranger.pem")],
    "the wrong type": set_(ssl_keystore_type="JKS"),
    "an unknown type": set_(ssl_keystore_type="ROT13"),
    "a password with PEM": set_(ssl_keystore_password="x"),
    "a store of PKCS12": set_(
        ssl_keystore_type="PKCS12", ssl_keystore_location="{F}/store.p12", ssl_keystore_password=PASSWORD, ssl_key_password=PASSWORD
    ),
    "a wrong password": set_(ssl_keystore_password="wrong"),
    "PEM again": [
        *((name, DELETE, None) for name, _, _ in set_(ssl_keystore_type="", ssl_keystore_password="", ssl_key_password="")),
        (_STORE, SET, "{F}/second.pem"),
    ],
    "a key as text beside a file": set_(ssl_keystore_key="{KEY}", ssl_keystore_certificate_chain="{CHAIN}"),
    "no such trust store": [(_TRUST, SET, "{F}/none.pem")],
    "a broken trust store": [(_TRUST, SET, "{F}/broken.pem")],
    "another trust store": [(_TRUST, SET, "{F}/ca2.pem")],
    "of the first authority": [(_STORE, SET, "{F}/first.pem")],
    "clients need a certificate": set_(ssl_client_auth="required"),
    "clients may perhaps need one": set_(ssl_client_auth="perhaps"),
    "clients need one, and another certificate": [(_STORE, SET, "{F}/second.pem")],
    "clients need none": [("listener.name.tls.ssl.client.auth", DELETE, None)],
    "clients need none, and another certificate": [(_STORE, SET, "{F}/first.pem")],
    "an old version of TLS": set_(ssl_enabled_protocols="TLSv1.2"),
    "an unknown version of TLS": set_(ssl_enabled_protocols="TLSv9"),
    "no version of TLS": set_(ssl_enabled_protocols=""),
    "all versions of TLS": [("listener.name.tls.ssl.enabled.protocols", DELETE, None)],
    "an unknown cipher suite": set_(ssl_cipher_suites="ROT13"),
    "what is fixed": set_(ssl_principal_mapping_rules="DEFAULT"),
    "what is fixed, too": set_(ssl_allow_dn_changes="true"),
    "without a prefix": [("ssl.keystore.location", SET, "{F}/second.pem")],
    "of an unknown listener": [("listener.name.nobody.ssl.keystore.location", SET, "{F}/second.pem")],
    "of an unknown listener, broken": [("listener.name.nobody.ssl.keystore.location", SET, "{F}/none.pem")],
    "of a listener without TLS": [("listener.name.sasl.ssl.keystore.location", SET, "{F}/none.pem")],
    "a trust store where there was none": [
        ("listener.name.bare.ssl.truststore.type", SET, "PEM"),
        ("listener.name.bare.ssl.truststore.location", SET, "{F}/ca.pem"),
    ],
    "another name where it is allowed": [("listener.name.loose.ssl.keystore.location", SET, "{F}/other_name.pem")],
    "fewer hosts where it is allowed": [("listener.name.loose.ssl.keystore.location", SET, "{F}/fewer_hosts.pem")],
    "the first certificate": [(_STORE, DELETE, None)],
    "another user": [(_JAAS, SET, f'{_PLAIN} user_bob="secret";')],
    "no JAAS": [(_JAAS, SET, "nonsense")],
    "JAAS without an end": [(_JAAS, SET, f'{_PLAIN} user_bob="secret"')],
    "two modules": [(_JAAS, SET, f"{_PLAIN}; {_SCRAM}")],
    "an unknown module": [(_JAAS, SET, "com.example.NoModule required;")],
    "the module of another mechanism": [(_JAAS, SET, _SCRAM)],
    "an empty JAAS": [(_JAAS, SET, "")],
    "JAAS of no mechanism": [("listener.name.sasl.rot13.sasl.jaas.config", SET, f"{_PLAIN};")],
    "JAAS without a mechanism": [("listener.name.sasl.sasl.jaas.config", SET, f'{_PLAIN} user_bob="secret";')],
    "the first user": [(_JAAS, DELETE, None)],
    "one mechanism": [("listener.name.sasl.sasl.enabled.mechanisms", SET, "SCRAM-SHA-256")],
    "an unknown mechanism": [("listener.name.sasl.sasl.enabled.mechanisms", SET, "ROT13")],
    "a mechanism without users": [("listener.name.sasl.sasl.enabled.mechanisms", SET, "PLAIN,SCRAM-SHA-512")],
    "no mechanism": [("listener.name.sasl.sasl.enabled.mechanisms", SET, "")],
    "the first mechanisms": [("listener.name.sasl.sasl.enabled.mechanisms", DELETE, None)],
}


class Scene:
    """One broker with these listeners, and what is left to ask."""

    def __init__(self, ports: Ports, files: Files, settle: Callable[[], None]) -> None:
        """`settle` waits until a change that was accepted is in force."""
        self._ports = ports
        self._files = files
        self._settle = settle

    def outcomes(self) -> Iterator[tuple[str, Any]]:
        """Yield label and outcome of each step."""
        yield "before", self.seen()
        for label, changes in STEPS.items():
            checked = self._alter(changes, validate_only=True)
            done = self._alter(changes)
            yield label, [checked if checked != done else "the same", done, self.seen()]
        yield from self._replaced_files()
        yield "all brokers", self._alter([("listener.name.tls.ssl.keystore.location", SET, "{F}/second.pem")], broker="")
        yield "AlterConfigs, broken", self._replace({_STORE: "{F}/none.pem"})
        yield "AlterConfigs", [self._replace({_STORE: "{F}/third.pem"}), self.seen()]
        yield "AlterConfigs, all away", [self._replace({}), self.seen()]

    def _replaced_files(self) -> Iterator[tuple[str, Any]]:
        """Replace files whose names stay."""
        self._alter([(_STORE, SET, "{F}/third.pem")])
        yield "a file", self.seen()
        self._files.replace("third", "fourth")
        self._settle()
        yield "a file was replaced", self.seen()
        yield "another config is changed", [self._alter([("log.cleaner.backoff.ms", SET, "20000")]), self.seen()]
        self._files.replace("third", "fifth")
        yield "the same name is set", [self._alter([(_STORE, SET, "{F}/third.pem")]), self.seen()]
        self._files.replace("third", "other_name")
        yield "the same name with a certificate of another name", [self._alter([(_STORE, SET, "{F}/third.pem")]), self.seen()]
        yield "back to the file of the start", [self._alter([(_STORE, DELETE, None)]), self.seen()]
        self._files.replace("first", "fourth")
        yield "the file of the start was replaced", [self._alter([("log.cleaner.backoff.ms", SET, "21000")]), self.seen()]
        (self._files.folder / "first.pem").unlink()
        yield "the file of the start is deleted", [self._alter([("log.cleaner.backoff.ms", SET, "22000")]), self.seen()]
        self._files.replace("first", "fifth")
        yield "the file of the start is set", [self._alter([(_STORE, SET, "{F}/first.pem")]), self.seen()]

    def _text(self, value: str | None) -> str | None:
        if value is None:
            return None
        inline = self._files.inline
        return value.replace("{F}", str(self._files.folder)).replace("{KEY}", inline.key_pem).replace("{CHAIN}", inline.chain_pem)

    def _alter(self, changes: list[Change], *, validate_only: bool = False, broker: str = "1") -> Any:
        configs = [k44.Config(name=name, config_operation=how, value=self._text(value)) for name, how, value in changes]
        resource = k44.Resource(resource_type=BROKER, resource_name=broker, configs=configs)
        return self._outcome(k44.Request(resources=[resource], validate_only=validate_only), is_change=not validate_only)

    def _replace(self, configs: Mapping[str, str]) -> Any:
        entries = [k33.Config(name=name, value=self._text(value)) for name, value in configs.items()]
        return self._outcome(
            k33.Request(resources=[k33.Resource(resource_type=BROKER, resource_name="1", configs=entries)], validate_only=False)
        )

    def _outcome(self, request: Any, *, is_change: bool = True) -> Any:
        with Conversation(self._ports.plain) as admin:
            (result,) = admin.ask(request).responses
        if is_change and not result.error_code:
            self._settle()
        message = result.error_message
        return [result.error_code, message and message.replace(str(self._files.folder), "{F}")]

    def seen(self) -> dict[str, Any]:
        """Return what new connections see at each listener."""
        tls = {name: self._certificate(getattr(self._ports, name)) for name in ("tls", "loose", "bare")}
        return {**tls, **{name: self._login(name) for name in ("alice", "bob")}}

    def _certificate(self, port: int) -> list[str]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", port), 5)
        with plain, contextlib.suppress(ConnectionError), context.wrap_socket(plain) as secured:
            found = [self._files.name_of(secured.getpeercert(binary_form=True) or b""), secured.version() or ""]
            try:  # with TLS 1.3 a client learns after the handshake that it needs a certificate
                secured.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff")
                found.append("serves" if secured.recv(4) else "closes")
            except (ssl.SSLError, ConnectionError):
                found.append("refuses")
            return found
        return ["no handshake"]

    def _login(self, user: str) -> Any:
        with Conversation(self._ports.sasl) as client:
            shaken = client.ask(k17.Request(mechanism="PLAIN"), 1)
            if getattr(shaken, "error_code", None) != 0:
                return ["mechanism", getattr(shaken, "error_code", "closed"), getattr(shaken, "mechanisms", None)]
            answer = client.ask(k36.Request(auth_bytes=f"\0{user}\0secret".encode()), 2)
            return getattr(answer, "error_code", "closed")


def written(found: Mapping[str, Any]) -> str:
    """Return outcomes as JSON, a line each."""
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in found.items())
