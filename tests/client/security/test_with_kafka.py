"""The client with each kind of listener of Apache Kafka 4.3.1, with the right configuration and with wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from minibroker.cli.kafka_tools.main import run_tool
from minibroker.cli.main import main
from minibroker.client.client import Client
from minibroker.client.errors import SecurityFailed, SecurityPart
from minibroker.client.security.connecting import connector
from tests.support.becoming import wait_until
from tests.support.certificates import pkcs12_of
from tests.support.secured_kafka import PASSWORD, PLAIN_MODULE, SCRAM_MODULE, SUPER_USER, SecuredKafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("kafka")) as made:
        yield made


def topics(kafka: SecuredKafka, listener: str, text: str) -> list[str | None]:
    """Ask for topics with properties in short form; CA and PW stand for the test's own."""
    text = text.replace(" | CA", f" | ssl.ca.location={kafka.authority.file}").replace("sasl.password=PW", f"sasl.password={PASSWORD}")
    properties = dict(part.split("=", 1) for part in text.split(" | "))
    with Client(kafka.addresses[listener], timeout_ms=20_000, connect=connector(properties)) as client:
        return [topic.name for topic in client.metadata(None).topics]


USER = f"sasl.mechanism=PLAIN | sasl.username={SUPER_USER} | sasl.password=PW"
TOKEN = f"sasl.mechanism=OAUTHBEARER | sasl.oauthbearer.config=principal={SUPER_USER}"


def test_every_security_protocol(kafka: SecuredKafka) -> None:
    assert topics(kafka, "PLAINTEXT", "security.protocol=PLAINTEXT") == []
    assert topics(kafka, "SSL", "security.protocol=SSL | CA") == []
    assert topics(kafka, "SASL_PLAINTEXT", f"security.protocol=SASL_PLAINTEXT | {USER}") == []
    assert topics(kafka, "SASL_SSL", f"security.protocol=SASL_SSL | {USER} | CA") == []
    assert topics(kafka, "SASL_SSL", f"security.protocol=SASL_SSL | {TOKEN} | CA") == []
    issued = kafka.authority.issue("client", (), key_password="of the key")
    mine = f"ssl.keystore.type=PEM | ssl.keystore.location={issued.file} | ssl.key.password=of the key"
    assert topics(kafka, "MUTUAL", f"security.protocol=SSL | CA | {mine}") == []
    store = issued.file.with_suffix(".p12")
    store.write_bytes(pkcs12_of(kafka.authority.issue("other", ()), "of the store"))
    mine = f"ssl.keystore.type=PKCS12 | ssl.keystore.location={store} | ssl.keystore.password=of the store"
    assert topics(kafka, "MUTUAL", f"security.protocol=SSL | CA | {mine}") == []
    assert topics(kafka, "STRANGER", "security.protocol=SSL | CA | ssl.endpoint.identification.algorithm=") == []


#: listener, properties -> the wrong part, and words of the message
WRONG = {
    ("SSL", "security.protocol=SSL"): (SecurityPart.CA, "does not trust the issuer"),
    ("STRANGER", "security.protocol=SSL | CA"): (SecurityPart.HOST_NAME, "but for broker.example"),
    ("EXPIRED", "security.protocol=SSL | CA"): (SecurityPart.EXPIRED, "has expired"),
    ("MUTUAL", "security.protocol=SSL | CA"): (SecurityPart.CLIENT_CERTIFICATE, "requires a certificate of the client"),
    ("SSL", "security.protocol=PLAINTEXT"): (SecurityPart.PROTOCOL, "a listener with TLS"),
    ("SASL_PLAINTEXT", "security.protocol=PLAINTEXT"): (SecurityPart.PROTOCOL, "a listener with SASL"),
    ("PLAINTEXT", "security.protocol=SSL | CA"): (SecurityPart.PROTOCOL, "without TLS: set security.protocol=PLAINTEXT"),
    ("SASL_PLAINTEXT", "security.protocol=SSL | CA"): (SecurityPart.PROTOCOL, "without TLS: set security.protocol=SASL_PLAINTEXT"),
    ("SASL_SSL", "security.protocol=SSL | CA"): (SecurityPart.PROTOCOL, "security.protocol=SASL_SSL"),
    ("SSL", f"security.protocol=SASL_SSL | CA | {USER}"): (SecurityPart.PROTOCOL, "a listener without SASL"),
    ("SASL_SSL", f"security.protocol=SASL_PLAINTEXT | {USER}"): (SecurityPart.PROTOCOL, "a listener with TLS"),
    ("SASL_SSL", f"security.protocol=SASL_SSL | CA | {USER}, "): (SecurityPart.PASSWORD, "rejects user admin"),
    ("SASL_SSL", "security.protocol=SASL_SSL | CA | sasl.mechanism=SCRAM-SHA-512 | sasl.username=nobody | sasl.password=PW"): (
        SecurityPart.PASSWORD,
        "unknown with SCRAM-SHA-512",
    ),
}


def test_each_mistake_is_named_at_once_in_one_line(kafka: SecuredKafka) -> None:
    found = {}
    for listener, properties in WRONG:
        with pytest.raises(SecurityFailed) as raised:
            topics(kafka, listener, properties)
        message = str(raised.value)
        assert PASSWORD not in message
        assert "\n" not in message
        assert WRONG[listener, properties][1] in message
        found[listener, properties] = (raised.value.part, WRONG[listener, properties][1])
    assert found == WRONG


class Runner:
    """Runs commands of a super user at the listener with TLS and SASL."""

    def __init__(self, config: Path) -> None:
        self.folder, self._config = config.parent, config

    def __call__(self, *arguments: str, exit_code: int = 0) -> str:
        result = CliRunner().invoke(main, [*arguments, "--command-config", str(self._config)])
        assert result.exit_code == exit_code, result.output
        return result.stdout


@pytest.fixture
def run(kafka: SecuredKafka, tmp_path: Path) -> Runner:
    config = tmp_path / "client.properties"
    module = f'{PLAIN_MODULE} required username="{SUPER_USER}" password="{PASSWORD}";'
    config.write_text(
        f"bootstrap.servers={kafka.addresses['SASL_SSL']}\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={module}\nssl.truststore.type=PEM\nssl.truststore.location={kafka.authority.file}\n"
    )
    return Runner(config)


def test_acls_are_added_listed_and_removed(run: Runner) -> None:
    run("acls", "add", "alice allow READ,WRITE TOPIC orders-*", "alice deny ALL CLUSTER from 10.0.0.7")
    wait_until(lambda: len(run("acls", "list").splitlines()) == 3, "the broker knows the ACLs")
    assert run("acls", "list", "--principal", "alice").splitlines() == [
        "alice allow READ TOPIC orders-*",
        "alice allow WRITE TOPIC orders-*",
        "alice deny ALL CLUSTER from 10.0.0.7",
    ]
    assert run("acls", "list", "--topic", "orders-eu", "--operation", "read") == "alice allow READ TOPIC orders-*\n"
    assert run("acls", "list", "--topic", "payments") == ""
    assert run("acls", "remove", "alice allow READ TOPIC orders-*") == "alice allow READ TOPIC orders-*\n"
    run("acls", "remove", "alice allow READ TOPIC orders-*", exit_code=1)
    assert len(run("acls", "remove", "--principal", "alice", "--yes").splitlines()) == 2
    wait_until(lambda: run("acls", "list") == "", "the ACLs are gone")


def test_a_user_logs_in_until_the_user_is_removed(kafka: SecuredKafka, run: Runner) -> None:
    password = run.folder / "password"
    password.write_text("first\n")
    run("users", "add", "dora", "--password-file", str(password))
    run("users", "add", "dora", "--password-file", str(password), exit_code=1)
    wait_until(lambda: run("users", "list").count("dora") == 2, "the broker knows the user")
    assert json.loads(run("users", "list", "-o", "json")) == [
        {"user": "dora", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "dora", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    dora = "security.protocol=SASL_SSL | CA | sasl.username=dora | sasl.mechanism="
    assert topics(kafka, "SASL_SSL", f"{dora}SCRAM-SHA-256 | sasl.password=first") == []
    assert topics(kafka, "SASL_SSL", f"{dora}SCRAM-SHA-512 | sasl.password=first") == []
    password.write_text("second")
    run("users", "password", "dora", "--password-file", str(password))
    assert topics(kafka, "SASL_SSL", f"{dora}SCRAM-SHA-512 | sasl.password=second") == []
    run("users", "remove", "dora")
    with pytest.raises(SecurityFailed):
        topics(kafka, "SASL_SSL", f"{dora}SCRAM-SHA-512 | sasl.password=second")


def test_a_delegation_token_logs_in_until_it_expires(kafka: SecuredKafka, run: Runner) -> None:
    made = json.loads(run("tokens", "create", "--renewer", "spark", "-o", "json"))[0]
    wait_until(lambda: made["token_id"] in run("tokens", "list"), "the broker knows the token")
    listed = run("tokens", "list", "-o", "json")
    assert made["hmac"] not in listed
    assert [(each["token_id"], each["owner"], each["renewers"]) for each in json.loads(listed)] == [
        (made["token_id"], f"User:{SUPER_USER}", ["User:spark"])
    ]
    entry = f'{SCRAM_MODULE} required username="{made["token_id"]}" password="{made["hmac"]}" tokenauth="true";'
    token = f"security.protocol=SASL_SSL | CA | sasl.mechanism=SCRAM-SHA-256 | sasl.jaas.config={entry}"
    assert topics(kafka, "SASL_SSL", token) == []
    assert int(run("tokens", "renew", made["token_id"])) >= made["expires_ms"]
    (run.folder / "hmac").write_text(made["hmac"])
    run("tokens", "expire", f"@{run.folder / 'hmac'}")
    wait_until(lambda: json.loads(run("tokens", "list", "-o", "json")) == [], "the token is gone")
    with pytest.raises(SecurityFailed):
        topics(kafka, "SASL_SSL", token)


#: ~ stands for a blank at the end of a line.
#: `kafka-acls` of Apache Kafka 4.3.1 (org.apache.kafka.tools.AclCommand), captured on 2026-11-23 from this sequence of commands
KAFKA_ACLS = """\
$ --add --allow-principal User:alice --operation Read --operation Describe --topic orders- --resource-pattern-type prefixed
Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)`:~
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW)

$ --add --allow-principal User:carol --consumer --topic t --group g
Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:~
 \t(principal=User:carol, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:carol, host=*, operation=DESCRIBE, permissionType=ALLOW)

Adding ACLs for resource `ResourcePattern(resourceType=GROUP, name=g, patternType=LITERAL)`:~
 \t(principal=User:carol, host=*, operation=READ, permissionType=ALLOW)

$ --add --deny-principal User:x --deny-host 1.2.3.4 --operation All --cluster
Adding ACLs for resource `ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL)`:~
 \t(principal=User:x, host=1.2.3.4, operation=ALL, permissionType=DENY)

$ --remove --topic t --group g --consumer --allow-principal User:carol --force
$ --list --topic t
$ --list --cluster --principal User:x
ACLs for principal `User:x`
Current ACLs for resource `ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL)`:
\t(principal=User:x, host=1.2.3.4, operation=ALL, permissionType=DENY)

"""


def test_kafka_acls_output_matches_kafka(kafka: SecuredKafka, run: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    transcript = ""
    for line in KAFKA_ACLS.splitlines():
        if line.startswith("$ "):
            if line.startswith("$ --list"):
                wait_until(
                    lambda: run("acls", "list", "--topic", "t") == "" and "x deny" in run("acls", "list"), "the broker knows the ACLs"
                )
            code = run_tool("kafka-acls", ["--bootstrap-server", kafka.addresses["PLAINTEXT"], *line[2:].split()])
            assert code == 0
            transcript += f"{line}\n{capsys.readouterr().out}"
    run("acls", "remove", "--principal", "alice", "--yes")
    run("acls", "remove", "--principal", "x", "--yes")
    assert transcript == KAFKA_ACLS.replace("~", " ")


def test_kafka_delegation_tokens_output_matches_kafka(kafka: SecuredKafka, run: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    def tool(*arguments: str) -> list[str]:
        config = ["--command-config", str(run.folder / "client.properties")]
        assert run_tool("kafka-delegation-tokens", ["--bootstrap-server", kafka.addresses["SASL_SSL"], *config, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:r")
    assert made[0] == "Calling create token operation with renewers :[User:r] , max-life-time-period :-1"
    token_id = made[1].removeprefix("Created delegation token with tokenId : ")
    head = "TOKENID         HMAC                           OWNER           REQUESTER       RENEWERS                  "
    assert made[2:5] == ["", f"{head}ISSUEDATE       EXPIRYDATE      MAXDATE        ", ""]
    row = made[5].split()
    assert (row[0], row[2:5]) == (token_id, [f"User:{SUPER_USER}", f"User:{SUPER_USER}", "[User:r]"])
    assert tool("--expire", "--expiry-time-period", "-1", "--hmac", row[1])[0].startswith("Calling expire token operation with hmac :")
    assert tool("--renew", "--renew-time-period", "-1", "--hmac", "AAAA") == [
        "Calling renew token operation with hmac :AAAA , renew-time-period :-1",
        "org.apache.kafka.common.errors.DelegationTokenNotFoundException: Delegation Token is not found on server.",
    ]
