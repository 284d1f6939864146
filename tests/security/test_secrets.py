"""Passwords and keys are nowhere to be seen: not in logs, answers, errors, tracebacks, the lab, or the arguments of processes."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minibroker.config.secret import Secret
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas import k41_describe_delegation_token as k41
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.security.certificates import Authority, write_keystore
from tests.golden.sasl_scenes import Conversation, scram_client
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_ports
from tests.support.sasl_broker import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE

BROKER, TOPIC = 4, 2
SET = 0
TIMEOUT_S = 60
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Secrets:
    """Makes secrets, and looks for them in texts."""

    def __init__(self) -> None:
        self._forms: dict[str, list[bytes]] = {}
        self._texts: dict[str, bytes] = {}

    def new(self, name: str) -> str:
        """Return a password that occurs nowhere else."""
        return self.add(name, f"Zq7-{name}-Xw4")

    def add(self, name: str, text: str, *, parts: tuple[str, ...] = ()) -> str:
        """Take a secret as it is. Of a long one its `parts` count."""
        raw = [part.encode() for part in parts or (text,)]
        self._forms[name] = [form for each in raw for form in (each, base64.b64encode(each).rstrip(b"="), each.hex().encode())]
        return text

    def collect(self, place: str, text: object) -> None:
        """Keep what a place shows."""
        data = text if isinstance(text, bytes) else text.encode() if isinstance(text, str) else repr(text).encode()
        self._texts[place] = self._texts.get(place, b"") + data

    def found(self) -> list[str]:
        """Return where a secret is shown, with the words around it."""
        return [
            f"{name} in {place}: {text[max(0, at - 150) : at + 40]!r}"
            for place, text in self._texts.items()
            for name, forms in self._forms.items()
            for form in forms
            if (at := text.find(form)) >= 0
        ]

    def texts(self) -> Mapping[str, bytes]:
        """What was collected, by place."""
        return self._texts


def with_key_lines(secrets: Secrets, name: str, pem: str) -> str:
    """Take a private key as a secret: each of its lines counts."""
    lines = tuple(line for line in pem.splitlines() if len(line) > 40 and not line.startswith("-----"))
    return secrets.add(name, pem, parts=lines)


def escaped(pem: str) -> str:
    return pem.replace("\n", "\\n")


class Secured:
    """A broker whose properties have every kind of secret."""

    def __init__(self, folder: Path) -> None:
        self.secrets = secrets = Secrets()
        self.folder = folder
        first = free_ports(5)
        self.plain, self.sasl, self.jaas, self.ssl, self.pem = range(first, first + 5)
        self.authority = Authority.create()
        (folder / "ca.pem").write_text(self.authority.issued.certificate_pem)
        issued = self.authority.issue("broker", ["localhost", "127.0.0.1"])
        store_password, key_password = secrets.new("store-password"), secrets.new("key-password")
        write_keystore(folder / "broker.p12", issued, self.authority, Secret(store_password))
        self.user_password = secrets.new("user-password")
        self.file_password = secrets.new("jaas-file-password")
        (folder / "jaas.conf").write_text(
            f'file.KafkaServer {{\n  {PLAIN_MODULE} required username="admin" password="{secrets.new("own-password")}"\n'
            f'  user_bob="{self.file_password}";\n}};\n'
        )
        self.properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.plain},SASL://127.0.0.1:{self.sasl},FILE://127.0.0.1:{self.jaas},"
            f"SSL://127.0.0.1:{self.ssl},PEM://127.0.0.1:{self.pem}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,FILE:SASL_PLAINTEXT,SSL:SSL,PEM:SASL_SSL",
            "log.dirs": str(folder / "data"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "listener.name.file.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.pem.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{self.user_password}";',
            "listener.name.pem.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_carol="{secrets.new("other-user-password")}";',
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
            "delegation.token.secret.key": secrets.new("token-secret"),
            "listener.name.ssl.ssl.keystore.type": "PKCS12",
            "listener.name.ssl.ssl.keystore.location": str(folder / "broker.p12"),
            "listener.name.ssl.ssl.keystore.password": store_password,
            "listener.name.pem.ssl.keystore.type": "PEM",
            "listener.name.pem.ssl.keystore.key": escaped(with_key_lines(secrets, "private-key", issued.key_pem(Secret(key_password)))),
            "listener.name.pem.ssl.keystore.certificate.chain": escaped(issued.certificate_pem),
            "listener.name.pem.ssl.key.password": key_password,
            "listener.name.pem.ssl.keystore.pasword": secrets.new("misspelled-property"),
            "sasl.jaas.config": f'{PLAIN_MODULE} required user_dora="{secrets.new("without-prefix")}";',
        }
        self.file = self._write("server.properties", {})

    def _write(self, name: str, changes: Mapping[str, str | None]) -> Path:
        found = {**self.properties, **changes}
        path = self.folder / name
        path.write_text("".join(f"{each}={text}\n" for each, text in found.items() if text is not None))
        return path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KAFKA_OPTS": f"-Djava.security.auth.login.config={self.folder / 'jaas.conf'}"}

    def run(self, place: str, *arguments: str, env: Mapping[str, str] = {}, feed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command, and keep what it prints."""
        command = [sys.executable, "-m", "minibroker", *arguments]
        done = subprocess.run(
            command, env={**self.environment(), **env}, input=feed, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        self.secrets.collect(place, done.stdout + done.stderr)
        return done

    def refused(self, number: int, changes: Mapping[str, str | None], env: Mapping[str, str] = {}) -> None:
        """Try to start with broken properties."""
        path = self._write(f"broken-{number}.properties", {**changes, "log.dirs": str(self.folder / "other")})
        place = f"a failed start with {', '.join(changes) or ', '.join(env)}"
        done = self.run(place, "serve", "--config", str(path), "--log-level", "debug", env=env)
        assert done.returncode, f"{place} did not fail"
        assert "Traceback" not in done.stderr
        if number % 3 == 1:
            self.run(f"config check of {', '.join(changes)}", "config", "check", str(path), env=env)


def configs_of_broker(talk: Conversation) -> Any:
    resource = k32.Resource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    return talk.ask(k32.Request(resources=[resource], include_synonyms=True, include_documentation=True))


def alter(talk: Conversation, name: str, text: str) -> Any:
    config = k44.Config(name=name, config_operation=SET, value=text)
    resource = k44.Resource(resource_type=BROKER, resource_name="1", configs=[config])
    return talk.ask(k44.Request(resources=[resource], validate_only=False))


def log_in_and_fail(secured: Secured) -> None:
    """Log in by every mechanism, rightly and wrongly, and send the passwords where they do not belong."""
    secrets = secured.secrets
    wrong = secrets.new("wrong-password")
    for port, user, password in ((secured.sasl, "alice", secured.user_password), (secured.jaas, "bob", secured.file_password)):
        for each in (password, wrong):
            with Conversation(port) as talk:
                talk.handshake("PLAIN")
                answer = talk.authenticate(f"\0{user}\0{each}")
                assert (answer.error_code == 0) == (each == password)
                secrets.collect("answers to logins", answer)
                if each == password:
                    secrets.collect("answers to logins", talk.authenticate(f"\0{user}\0{each}"))
    tokens = (
        f"\0{wrong}",
        f"{wrong}\0alice\0{wrong}",
        f"\0alice\0{wrong}\0{wrong}",
        f"n,,n=alice,r={wrong}",
        f"n,,\x01auth=Bearer {wrong}.{wrong}.{wrong}\x01\x01",
    )
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
        for token in tokens:
            with Conversation(secured.sasl) as talk:
                talk.handshake(mechanism)
                talk.authenticate(token)
                talk.authenticate(f"c=biws,r={wrong},p={base64.b64encode(wrong.encode()).decode()}")
    for version in (0, 1):
        with Conversation(secured.sasl) as talk:
            talk.handshake("PLAIN", version)
            talk.bare(f"\0alice\0{wrong}")
    with Conversation(secured.sasl) as talk:  # a request that breaks in the middle of the password
        talk.handshake("PLAIN")
        talk.raw(b"\0\x24\0\0\0\0\0\1\xff\xff\0\0\xff\xff\0alice\0" + wrong.encode())
    for port in (secured.sasl, secured.plain, secured.ssl):
        with Conversation(port) as talk:
            talk.raw(f"\0alice\0{wrong}".encode())


def make_scram_user(secured: Secured) -> None:
    """Store a SCRAM credential, log in with it, and ask for it."""
    salted = secured.secrets.add("salted-password", "Zq7-salted-password-0123456789-Xw4")
    upsertions = [
        k51.Upsertion(name=name, mechanism=1, iterations=iterations, salt=b"salt", salted_password=salted.encode())
        for name, iterations in (("erin", 8192), ("frank", 1))
    ]
    with Conversation(secured.plain) as talk:
        secured.secrets.collect("AlterUserScramCredentials", talk.ask(k51.Request(deletions=[], upsertions=upsertions)))
        secured.secrets.collect("DescribeUserScramCredentials", talk.ask(k50.Request(users=None)))
    with Conversation(secured.sasl) as talk:
        talk.handshake("SCRAM-SHA-256")
        first = talk.authenticate("n,,n=erin,r=0123456789abcdef")
        talk.authenticate(scram_client("erin", b"x", "SCRAM-SHA-256")(first.auth_bytes))


def make_token(secured: Secured) -> None:
    """Create a delegation token: only its owner sees the HMAC, in these answers."""
    with Conversation(secured.sasl) as talk:
        talk.handshake("PLAIN")
        talk.authenticate(f"\0alice\0{secured.user_password}")
        token = talk.ask(k38.Request(renewers=[], max_lifetime_ms=-1))
        assert token.error_code == 0
        secured.secrets.add("token-hmac", "", parts=(base64.b64encode(token.hmac).decode(),))
        talk.ask(k41.Request(owners=None))


def change_configs(secured: Secured) -> None:
    """Change secrets of a running broker, to good ones and to broken ones."""
    secrets = secured.secrets
    jaas = "listener.name.sasl.plain.sasl.jaas.config"
    changed, broken = secrets.new("changed-password"), secrets.new("broken-jaas")
    with Conversation(secured.plain) as talk:
        for name, text in (
            (jaas, f"{PLAIN_MODULE} required user_alice={broken}"),
            (jaas, f'{PLAIN_MODULE} required user_alice="{broken}'),
            (jaas, f'{broken} required user_alice="x";'),
            (jaas, f'{PLAIN_MODULE} {broken} user_alice="x";'),
            (jaas, f'{PLAIN_MODULE} required user_alice="{changed}";'),
            ("listener.name.ssl.ssl.keystore.password", secrets.new("wrong-store-password")),
            ("listener.name.pem.ssl.key.password", secrets.new("wrong-key-password")),
            ("listener.name.pem.ssl.keystore.key", secrets.new("no-key")),
            ("ssl.keystore.password", secrets.new("password-of-all")),
            ("listener.name.sasl.no.such.password", secrets.new("unknown-dynamic")),
            ("delegation.token.secret.key", secrets.new("read-only-secret")),
        ):
            secrets.collect(f"IncrementalAlterConfigs of {name}", alter(talk, name, text))
            with Conversation(secured.sasl) as other:  # follows the change
                other.handshake("PLAIN")
        secrets.collect("DescribeConfigs", configs_of_broker(talk))


def lab_of(secured: Secured, url: str) -> None:
    """Ask for everything that the lab tells."""
    with urllib.request.urlopen(f"{url}/", timeout=TIMEOUT_S) as answer:  # noqa: S310  our own
        operations = json.load(answer)["commands"]
    secured.secrets.collect("the lab's operations", json.dumps(operations))
    gettable = 0
    for operation in operations:
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{url}/{operation['command']}", timeout=TIMEOUT_S) as answer:  # noqa: S310  our own
            secured.secrets.collect(f"the lab's {operation['command']}", answer.read())
            gettable += 1
    assert gettable >= 3
    for command in ("snapshot", "snapshot.list"):
        request = urllib.request.Request(f"{url}/{command}", b"{}", {"Content-Type": "application/json"})  # noqa: S310  our own
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310  our own
            secured.secrets.collect(f"the lab's {command}", answer.read())


def arguments_of(pid: int) -> Iterator[tuple[int, bytes]]:
    """Arguments of a process and of those that it started."""
    yield pid, Path(f"/proc/{pid}/cmdline").read_bytes()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from arguments_of(int(child))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secrets"))


def test_a_running_broker_shows_no_secret(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", secured.environment()["KAFKA_OPTS"])
    words = ("--config", str(secured.file), "--log-level", "debug", "--lab-port", "0")
    with BrokerProcess(secured.folder, *words, port=-1, log_dirs=[secured.folder / "data"]) as broker:
        (url,) = re.findall(r", lab (http://\S+?),", broker.output)
        with Conversation(secured.plain) as talk:
            found = configs_of_broker(talk)
            secured.secrets.collect("DescribeConfigs", found)
            names = {config.name for config in found.results[0].configs}
            assert names >= {
                "delegation.token.secret.key",
                "listener.name.sasl.plain.sasl.jaas.config",
                "listener.name.pem.ssl.keystore.key",
            }
        log_in_and_fail(secured)
        make_scram_user(secured)
        make_token(secured)
        change_configs(secured)
        lab_of(secured, url)
        for pid, arguments in arguments_of(broker.pid):
            secured.secrets.collect(f"arguments of process {pid}", arguments)
        client = secured.folder / "client.properties"
        for password in (secured.user_password, secured.secrets.new("client-password")):
            module = f'{PLAIN_MODULE} required username="alice" password="{password}";'
            client.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={module}\n")
            for command in (("doctor",), ("topics", "list"), ("configs", "describe", "brokers", "1", "--all"), ("api-versions",)):
                secured.run(f"minibroker {command[0]}", *command, "-b", f"127.0.0.1:{secured.sasl}", "--command-config", str(client))
        assert broker.stop() == 0
        secured.secrets.collect("the log", broker.output)
    log = secured.secrets.texts()["the log"]
    assert b"Failed authentication with" in log
    assert b"Traceback" not in log
    assert secured.secrets.found() == []


def test_a_broker_that_does_not_start_shows_no_secret(secured: Secured) -> None:
    secrets, folder = secured.secrets, secured.folder
    jaas = "listener.name.sasl.plain.sasl.jaas.config"
    text = secrets.new("start-jaas")
    (folder / "no-key.pem").write_text(f"-----BEGIN PRIVATE KEY-----\n{secrets.new('unreadable-key')}\n-----END PRIVATE KEY-----\n")
    (folder / "broken.conf").write_text(f'KafkaServer {{ {PLAIN_MODULE} required user_bob="{secrets.new("broken-file")}" }};')
    pem = {"listener.name.ssl.ssl.keystore.type": "PEM", "listener.name.ssl.ssl.keystore.password": None}
    broken: tuple[Mapping[str, str | None], ...] = (
        {"listener.name.ssl.ssl.keystore.password": secrets.new("start-store-password")},
        {"listener.name.pem.ssl.key.password": secrets.new("start-key-password")},
        {"listener.name.pem.ssl.keystore.key": secrets.new("start-no-key")},
        {"listener.name.pem.ssl.keystore.certificate.chain": secrets.new("start-no-chain")},
        {**pem, "listener.name.ssl.ssl.keystore.location": str(folder / "no-key.pem")},
        {"listener.name.ssl.ssl.truststore.location": str(folder / "broker.p12"), "listener.name.ssl.ssl.truststore.password": text},
        {jaas: f"{PLAIN_MODULE} required user_alice={text}"},
        {jaas: f'{PLAIN_MODULE} required user_alice="{text}'},
        {jaas: f'{PLAIN_MODULE} required user_alice="{text}" {text};'},
        {jaas: f'{PLAIN_MODULE} user_alice="{text}";'},
        {jaas: f'{PLAIN_MODULE} required ="{text}";'},
        {jaas: f'required user_alice="{text}";'},
        {jaas: text},
        {
            "sasl.oauthbearer.jwks.endpoint.url": f"https://user:{secrets.new('password-of-url')}@127.0.0.1:1/keys",
            "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        },
        {"delegation.token.expiry.time.ms": "no-number"},
    )
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(secured.refused, range(len(broken)), broken))
    secured.refused(100, {}, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={folder / 'broken.conf'}"})
    for number, users in enumerate((f":{text}:PLAIN", f":{text}", f"alice:{text} bob", f"alice:{text}:PLAIN alice:{text}x:PLAIN")):
        place = f"a failed start with users {number}"
        data = ("--data-dir", str(folder / "third"), "--port", "0")
        assert secured.run(place, "serve", *data, env={"MINIBROKER_SASL_USERS": users}).returncode, place
    secured.run("config check", "config", "check", str(secured.file))
    assert secrets.found() == []


def test_files_with_keys_and_passwords_belong_to_their_owner(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--secure", "--tls-dir", str(tmp_path / "tls")):
        secret = [path for path in tmp_path.rglob("*") if path.is_file() and holds_secret(path)]
        assert {path.name for path in secret} >= {"ca.key", "broker.pem", "client.pem", "admin.password", "admin.properties"}
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in secret} == {path.name: "0o600" for path in secret}


def holds_secret(path: Path) -> bool:
    data = path.read_bytes()
    return b"PRIVATE KEY" in data or b'password="' in data or path.name == "admin.password"
