"""Delegation tokens of real clients: Kafka's tools on minibroker, and a directory that goes to Apache Kafka and back."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas import k39_renew_delegation_token as k39
from minibroker.schemas import k40_expire_delegation_token as k40
from minibroker.schemas import k41_describe_delegation_token as k41
from tests.golden.token_scenes import SECRET
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.child_process import ChildProcess
from tests.support.dump_log import check_metadata_log
from tests.support.kafka_process import KafkaProcess
from tests.support.kafka_tools import KafkaTools
from tests.support.kafka_users import PASSWORD, KafkaUser, kafka_with_users
from tests.support.sasl_broker import PLAIN_MODULE, SCRAM_MODULE, SaslBroker

TOKENS = {
    "delegation.token.secret.key": SECRET,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}
HOUR_MS = 3_600_000


class ConfiguredProcess(BrokerProcess):
    """A broker whose listeners are in its properties."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        self._config = folder / "minibroker.properties"
        self._config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        super().__init__(folder)

    def _spawn(self) -> None:
        command = [sys.executable, "-m", "minibroker", "serve", "--config", str(self._config), "--data-dir", str(self.data_dir)]
        self._process = ChildProcess(command, self.output_path)


def ask(port: int, user: str, request: Any) -> Any:
    with KafkaUser(port, user) as client:
        return client.ask(request)


def create(port: int, *renewers: str, lifetime_ms: int = -1) -> k38.Response:
    wanted = [k38.Renewer(principal_type="User", principal_name=name) for name in renewers]
    token: k38.Response = ask(port, "alice", k38.Request(renewers=wanted, max_lifetime_ms=lifetime_ms))
    assert token.error_code == 0
    return token


def described(port: int) -> dict[str, tuple[Any, ...]]:
    answer = ask(port, "alice", k41.Request(owners=None))
    assert answer.error_code == 0
    return {
        each.token_id: (
            each.principal_name,
            each.token_requester_principal_name,
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
            each.hmac,
            [renewer.principal_name for renewer in each.renewers],
        )
        for each in answer.tokens
    }


def log_in(port: int, token: k38.Response) -> None:
    with KafkaUser(port, token.token_id, token.hmac) as client:
        client.ask(k03.Request(topics=[]))
        assert client.ask(k38.Request(renewers=[], max_lifetime_ms=-1)).error_code == 64


def test_tokens_go_to_kafka_and_back(tmp_path: Path) -> None:
    port, settings = kafka_with_users(["alice", "bob"])
    kafkas = {**settings, **TOKENS}
    own = {name: value for name, value in kafkas.items() if not name.startswith("controller.")}
    for name in ("listeners", "listener.security.protocol.map"):
        own[name] = ",".join(each for each in own[name].split(",") if not each.startswith("CONTROLLER"))
    (tmp_path / "kafka").mkdir()
    with ConfiguredProcess(tmp_path, own) as broker:
        first, gone = create(port, "bob", lifetime_ms=48 * HOUR_MS), create(port)
        expected = described(port)
        assert expected.keys() == {first.token_id, gone.token_id}
        broker.kill()
        broker.start()
        assert described(port) == expected
        log_in(port, first)
        assert broker.stop() == 0
    check_metadata_log(broker.data_dir)
    with KafkaProcess(tmp_path / "kafka", broker.data_dir, settings=kafkas) as kafka:
        wait_until(lambda: described(port) == expected, "Kafka has the tokens of minibroker")
        log_in(port, first)
        renewed = ask(port, "bob", k39.Request(hmac=first.hmac, renew_period_ms=HOUR_MS))
        assert renewed.error_code == 0
        assert ask(port, "alice", k40.Request(hmac=gone.hmac, expiry_time_period_ms=-1)).error_code == 0
        third = create(port)
        wait_until(lambda: described(port).keys() == {first.token_id, third.token_id}, "Kafka has changed the tokens")
        expected = described(port)
        assert expected[first.token_id][3] == renewed.expiry_timestamp_ms
        kafka.stop()
    with ConfiguredProcess(tmp_path, own) as broker:
        assert described(port) == expected
        log_in(port, first)
        log_in(port, third)
        assert ask(port, "bob", k40.Request(hmac=first.hmac, expiry_time_period_ms=-1)).error_code == 0
        assert broker.stop() == 0
    check_metadata_log(broker.data_dir)


def client_of(folder: Path, name: str, mechanism: str, login: str) -> Path:
    """The properties of a Java client."""
    path = folder / f"{name}.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={login};\n")
    return path


def test_javas_tool_works_with_minibroker(tmp_path: Path) -> None:
    properties = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}" user_bob="{PASSWORD}";',
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "delegation.token.secret.key": SECRET,
    }
    clients = {
        user: client_of(tmp_path, user, "PLAIN", f'{PLAIN_MODULE} required username="{user}" password="{PASSWORD}"')
        for user in ("alice", "bob")
    }
    with SaslBroker(properties) as broker, KafkaTools(tmp_path) as tools:

        def run(user: str, *arguments: object) -> str:
            said = tools.run(
                "DelegationTokenCommand", "--bootstrap-server", broker.bootstrap(), "--command-config", clients[user], *arguments
            )
            assert said.exit_code == 0, said
            return "\n".join(said.out)

        made = run("alice", "--create", "--max-life-time-period", -1, "--renewer-principal", "User:bob")
        row = re.search(r"(\S{22})\s+(\S{80,})\s+User:alice\s+User:alice\s+\[User:bob\]", made)
        assert row, made
        token_id, token_hmac = row.groups()
        assert len(base64.b64decode(token_hmac)) == 64
        assert token_hmac in run("bob", "--describe", "--owner-principal", "User:alice")
        assert "Completed renew operation" in run("bob", "--renew", "--renew-time-period", HOUR_MS, "--hmac", token_hmac)
        login = f'{SCRAM_MODULE} required username="{token_id}" password="{token_hmac}" tokenauth="true"'
        clients["token"] = client_of(tmp_path, "token", "SCRAM-SHA-512", login)
        at = ("--bootstrap-server", broker.bootstrap(), "--command-config", clients["token"])
        assert tools.run("TopicCommand", *at, "--create", "--topic", "by-token").exit_code == 0
        refused = tools.run("DelegationTokenCommand", *at, "--describe")
        assert "Delegation Token requests are not allowed" in "\n".join([*refused.out, *refused.err])
        assert "Completed expire operation" in run("bob", "--expire", "--expiry-time-period", -1, "--hmac", token_hmac)
        late = tools.run("TopicCommand", *at, "--list")
        assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in "\n".join([*late.out, *late.err])
