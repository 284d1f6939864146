"""What a SASL listener does not start with, as Apache Kafka does not; JAAS files; where the keys of signed tokens come from."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.sources import from_environment
from minibroker.errors import ConfigurationError
from minibroker.security.scram import UnknownUsers
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionLimits, Listener
from minibroker.server.sasl.listener import SaslListener
from minibroker.server.sasl.mechanisms import Accounts, TokenKeys, offers_of
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.sasl_broker import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE

MECHANISMS = "sasl.enabled.mechanisms"
JAAS = "listener.name.sasl.plain.sasl.jaas.config"
OAUTH_JAAS = "listener.name.sasl.oauthbearer.sasl.jaas.config"
HANDLER = "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class"
SIGNED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
URL = "listener.name.sasl.sasl.oauthbearer.jwks.endpoint.url"
PLAIN = {MECHANISMS: "PLAIN", JAAS: f'{PLAIN_MODULE} required user_alice="hunter2";'}
OAUTH = {MECHANISMS: "OAUTHBEARER", OAUTH_JAAS: f"{OAUTHBEARER_MODULE} required;"}
CLOCK = ManualClock()


def listener(properties: dict[str, str]) -> SaslListener:
    config = BrokerConfig(
        {"listeners": "SASL://127.0.0.1:1", "listener.security.protocol.map": "SASL:SASL_PLAINTEXT", **properties},
    )
    return listener_of(lambda: config.security_texts, config.connections_max_idle_ms)


def listener_of(texts: Callable[[], Mapping[str, str]], max_idle_ms: int) -> SaslListener:
    accounts = Accounts(lambda _mechanism, _user: None, lambda _mechanism, _token: None)
    keys = TokenKeys(CLOCK, InlineBackground())
    make = partial(offers_of, accounts=accounts, keys=keys, unknown=UnknownUsers())
    return SaslListener("SASL", texts, max_idle_ms, make, keys.close, CLOCK)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, r"listener\.name\.sasl\.sasl\.enabled\.mechanisms: GSSAPI \(the default\) needs Kerberos.*=PLAIN"),
        ({MECHANISMS: "GSSAPI"}, r"^sasl\.enabled\.mechanisms: GSSAPI needs Kerberos"),
        ({**PLAIN, MECHANISMS: "PLAIN,GSSAPI"}, "GSSAPI needs Kerberos"),
        ({**PLAIN, MECHANISMS: "plain"}, "plain is not a mechanism that minibroker serves"),
        ({**PLAIN, MECHANISMS: ""}, "No SASL mechanisms are enabled"),
        ({MECHANISMS: "PLAIN"}, r"listener\.name\.sasl\.plain\.sasl\.jaas\.config is missing"),
        ({MECHANISMS: "PLAIN", "sasl.jaas.config": PLAIN[JAAS]}, r"listener\.name\.sasl\.plain\.sasl\.jaas\.config is missing"),
        ({**PLAIN, MECHANISMS: "PLAIN,SCRAM-SHA-512"}, r"listener\.name\.sasl\.scram-sha-512\.sasl\.jaas\.config is missing"),
        ({**PLAIN, JAAS: "x"}, r"listener\.name\.sasl\.plain\.sasl\.jaas\.config: login module is not supported"),
        ({**PLAIN, JAAS: PLAIN[JAAS][:-1]}, r"sasl\.jaas\.config: the entry must end with a semicolon"),
        ({**PLAIN, JAAS: PLAIN[JAAS] * 2}, "it has 2 login modules"),
        ({**PLAIN, "connection.failed.authentication.delay.ms": "600000"}, r"should be less than connections\.max\.idle\.ms=600000"),
        ({**PLAIN, "listener.name.sasl.plain.connections.max.reauth.ms": "x"}, r"connections\.max\.reauth\.ms"),
        ({**PLAIN, "listener.name.sasl.plain.sasl.server.callback.handler.class": SIGNED}, "does not serve mechanism PLAIN"),
        ({**OAUTH, OAUTH_JAAS: f"{SCRAM_MODULE} required;"}, "needs exactly one login module"),
        ({**OAUTH, OAUTH_JAAS: OAUTH[OAUTH_JAAS][:-1] + ' unsecuredValidatorAllowableClockSkewMs="-1";'}, "AllowableClockSkewMs must be"),
        ({**OAUTH, HANDLER: SIGNED}, r"jwks\.endpoint\.url is missing"),
        ({**OAUTH, HANDLER: SIGNED, URL: "file:///no/such/file"}, r"listener\.name\.sasl\..*url: the keys of tokens cannot be read"),
        ({**OAUTH, HANDLER: SIGNED, URL: "ftp://127.0.0.1/"}, "its scheme is not one of http, https, file"),
        ({**OAUTH, HANDLER: SIGNED, URL: "http://a:hunter2@127.0.0.1:1/x?k=hunter2"}, r"cannot be read from http://127\.0\.0\.1:1/x: "),
        ({**OAUTH, HANDLER: SIGNED, URL: "https://127.0.0.1:x"}, "the server does not speak HTTP"),
        ({**OAUTH, HANDLER: SIGNED, URL: "https://[hunter2"}, "an invalid URL"),
        ({**OAUTH, HANDLER: "com.example.Handler"}, r"com\.example\.Handler"),
        ({"java.security.auth.login.config": "/no/such/jaas.conf", MECHANISMS: "PLAIN"}, r"cannot read /no/such/jaas\.conf"),
    ],
)
def test_a_listener_that_apache_kafka_does_not_start_is_refused_in_one_line(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        listener(properties)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_mechanisms_are_those_of_the_listener() -> None:
    offers = listener({**PLAIN, MECHANISMS: "GSSAPI", "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN"}).offers
    assert list(offers) == ["PLAIN"]


def test_a_jaas_file_named_by_kafka_opts_has_the_users(tmp_path: Path) -> None:
    file = tmp_path / "jaas with space.conf"
    file.write_text(f'KafkaServer {{\n  {PLAIN_MODULE} required user_alice="secret";\n  {SCRAM_MODULE} required;\n}};\n')
    for quoted in (f'"-Djava.security.auth.login.config={file}"', f"-Xmx1g -Djava.security.auth.login.config='{file}' -Dx=y"):
        properties = from_environment({"KAFKA_OPTS": quoted, "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256"})
        offers = listener(properties).offers
        exchange = offers["PLAIN"].begin()
        exchange.evaluate(b"\0alice\0secret")
        assert exchange.is_complete
    file.write_text("Client { com.example.Other required; };")
    with pytest.raises(ConfigurationError, match=r"neither a section KafkaServer nor sasl\.KafkaServer"):
        listener(properties)


# -- keys of signed tokens ---------------------------------------------------------------------------------------------

jwt = pytest.importorskip("jwt")
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402  after the check for the extra


class Issuer:
    """An authorization server: its keys, and tokens."""

    def __init__(self) -> None:
        self.requests = 0
        self.status = 200
        self.keys: dict[str, Any] = {}
        self.add("one")

    def add(self, key_id: str) -> None:
        self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())

    @property
    def document(self) -> bytes:
        to_jwk = jwt.get_algorithm_by_name("ES256").to_jwk
        return json.dumps({"keys": [{**json.loads(to_jwk(key.public_key())), "kid": name} for name, key in self.keys.items()]}).encode()

    def message(self, key_id: str = "one", **claims: Any) -> bytes:
        now_s = CLOCK.now_ms() // 1000
        said = {"sub": "alice", "iat": now_s, "exp": now_s + 10**6, **claims}
        token = jwt.encode(said, self.keys[key_id], "ES256", headers={"kid": key_id})
        return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


@pytest.fixture
def issuer() -> Iterator[tuple[Issuer, str]]:
    state = Issuer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests += 1
            if state.status == 302:
                self.send_response(302)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                return
            self.send_response(state.status)
            self.end_headers()
            self.wfile.write(state.document)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state, f"http://127.0.0.1:{server.server_port}/jwks"
    server.shutdown()
    server.server_close()


def is_accepted(sasl: SaslListener, message: bytes) -> bool:
    exchange = sasl.offers["OAUTHBEARER"].begin()
    exchange.evaluate(message)
    return exchange.is_complete


def signed_listener(url: str, **more: str) -> SaslListener:
    return listener({**OAUTH, HANDLER: SIGNED, URL: url, **more})


def test_keys_are_read_from_a_file(issuer: tuple[Issuer, str], tmp_path: Path) -> None:
    state, _ = issuer
    file = tmp_path / "a key set.json"
    file.write_bytes(state.document)
    assert is_accepted(signed_listener(file.as_uri()), state.message())


def test_keys_are_read_again_in_time_and_when_a_token_names_another_one(issuer: tuple[Issuer, str]) -> None:
    state, url = issuer
    sasl = signed_listener(url, **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000000"})
    assert is_accepted(sasl, state.message())
    assert state.requests == 1
    state.add("two")
    assert not is_accepted(sasl, state.message("two"))  # this login asks for the keys, the next one has them
    assert is_accepted(sasl, state.message("two"))
    assert state.requests == 2
    state.add("three")
    for _ in range(100):  # an unknown key does not make the broker ask at every login
        assert not is_accepted(sasl, state.message("three"))
    assert state.requests == 2
    CLOCK.advance(1_000_001)
    assert is_accepted(sasl, state.message("three"))
    assert state.requests == 3
    sasl.close()
    CLOCK.advance(2_000_000)
    assert state.requests == 3


def test_keys_are_not_read_again_when_another_property_changes(issuer: tuple[Issuer, str]) -> None:
    """That would hold the event loop for as long as the server of the keys takes."""
    state, url = issuer
    names = {"listeners": "SASL://127.0.0.1:1", "listener.security.protocol.map": "SASL:SASL_PLAINTEXT", **OAUTH, HANDLER: SIGNED, URL: url}
    issuer_name = "listener.name.sasl.sasl.oauthbearer.expected.issuer"
    configs = [BrokerConfig(names), BrokerConfig({**names, issuer_name: "https://issuer"})]
    sasl = listener_of(lambda: configs[0].security_texts, 600_000)
    assert is_accepted(sasl, state.message(iss="https://evil"))
    del configs[0]
    connection: Any = None
    sasl.gate(connection, connection)  # a new connection brings the properties of now
    assert not is_accepted(sasl, state.message(iss="https://evil"))
    assert is_accepted(sasl, state.message(iss="https://issuer"))
    assert state.requests == 1
    sasl.close()


def test_a_listener_that_stops_reads_no_more_keys(issuer: tuple[Issuer, str]) -> None:
    state, url = issuer
    broker = BrokerInMemory()
    closing = Listener("SASL", broker.dispatcher, broker.clock, ConnectionLimits, Connection)
    closing.sasl = signed_listener(url, **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000000"})
    CLOCK.advance(1_000_001)
    assert state.requests == 2
    closing.stop_accepting()
    CLOCK.advance(2_000_000)
    assert state.requests == 2


def test_keys_stay_when_they_cannot_be_read_again(issuer: tuple[Issuer, str], caplog: pytest.LogCaptureFixture) -> None:
    state, url = issuer
    sasl = signed_listener(url, **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000000"})
    state.status = 503
    CLOCK.advance(1_000_001)
    for pause_ms in (100, 200, 400, 800):
        assert f"(will retry in {pause_ms} ms)" in caplog.text
        CLOCK.advance(pause_ms)
    assert is_accepted(sasl, state.message())
    sasl.close()


def test_redirects_are_not_followed(issuer: tuple[Issuer, str]) -> None:
    state, url = issuer
    state.status = 302
    with pytest.raises(ConfigurationError, match="the keys of tokens cannot be read"):
        signed_listener(url)
    assert state.requests == 1


def test_tokens_of_other_issuers_and_audiences_are_refused(issuer: tuple[Issuer, str]) -> None:
    state, url = issuer
    prefix = "listener.name.sasl.sasl.oauthbearer"
    sasl = signed_listener(url, **{f"{prefix}.expected.audience": "kafka,other", f"{prefix}.expected.issuer": "https://issuer"})
    assert is_accepted(sasl, state.message(aud="kafka", iss="https://issuer"))
    assert not is_accepted(sasl, state.message(aud="kafka", iss="https://evil"))
    assert not is_accepted(sasl, state.message(aud="web", iss="https://issuer"))
    sasl.close()
