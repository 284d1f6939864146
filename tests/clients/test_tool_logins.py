"""Kafka's command-line tools log in by every mechanism over TLS, with their properties in a file, and say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.logins import DELEGATED, PASSWORD, RIGHT, TOPIC, USER, WRONG, WRONG_PASSWORD, Login, LoginBroker, login_broker
from tests.support.failing import failing
from tests.support.kafka_tools import KafkaTools, Said
from tests.support.sasl_broker import OAUTHBEARER_MODULE

_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
CASES = [*(case for case in RIGHT if case.protocol.endswith("SSL") and not case.listener.endswith("6")), *DELEGATED]
#: What kafka-topics says. Java's client makes its own unsigned tokens, which are never expired.
REFUSALS = {
    "wrong-password-PLAIN": "SaslAuthenticationException: Authentication failed: Invalid username or password",
    "unknown-user-SCRAM-SHA-512": "SaslAuthenticationException: Authentication failed during authentication due to invalid credentials",
    "forged-token": r'SaslAuthenticationException: \{"status":"invalid_token"\}',
    "wrong-CA": "SslAuthenticationException: SSL handshake failed",
    "wrong-host-name": "SslAuthenticationException: SSL handshake failed",
    "expired-certificate": "SslAuthenticationException: SSL handshake failed",
    "no-client-certificate": "SslAuthenticationException: Failed to process post-handshake messages",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with login_broker(tmp_path_factory.mktemp("logins")) as found:
        yield found


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory, broker: LoginBroker) -> Iterator[KafkaTools]:
    tokens = ",".join(f"file://{_token_file(broker, case)}" for case in (*RIGHT, *WRONG) if case.signer)
    with KafkaTools(tmp_path_factory.mktemp("tools"), jvm_options=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens}"]) as found:
        yield found


def _token_file(broker: LoginBroker, case: Login) -> Path:
    file = broker.folder / f"{case.name}.jwt"
    if not file.exists():
        file.write_text(case.token)
    return file


def config_file(broker: LoginBroker, case: Login) -> Path:
    """Write the properties of a case."""
    properties = broker.java_properties(case)
    if case.mechanism == "OAUTHBEARER":
        option = "" if case.signer else f' unsecuredLoginStringClaim_sub="{USER}"'
        properties["sasl.jaas.config"] = f"{OAUTHBEARER_MODULE} required{option};"
    if case.signer:
        properties["sasl.login.callback.handler.class"] = f"{_OAUTHBEARER}.OAuthBearerLoginCallbackHandler"
        properties["sasl.oauthbearer.jwt.retriever.class"] = f"{_OAUTHBEARER}.FileJwtRetriever"
        properties["sasl.oauthbearer.token.endpoint.url"] = f"file://{_token_file(broker, case)}"
    file = broker.folder / f"{case.name}.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    return file


def run(tools: KafkaTools, broker: LoginBroker, case: Login, tool: str, *arguments: str, stdin: str = "") -> Said:
    at = ("--bootstrap-server", broker.bootstrap(case.listener), "--command-config", config_file(broker, case))
    return tools.run(tool, *at, *arguments, stdin=stdin)


def test_tools_log_in(broker: LoginBroker, tools: KafkaTools) -> None:
    def check(case: Login) -> None:
        sent = run(tools, broker, case, "ConsoleProducer", "--topic", TOPIC, stdin=f"{case.name}\n")
        assert sent.exit_code == 0, sent
        read = run(tools, broker, case, "ConsoleConsumer", "--topic", TOPIC, "--from-beginning", "--timeout-ms", "3000", "--max-messages",
                   str(CASES.index(case) + 1))  # fmt: skip
        assert read.out[-1:] == [case.name], read
        assert TOPIC in run(tools, broker, case, "TopicCommand", "--list").out
        allowed = run(tools, broker, case, "AclCommand", "--add", "--allow-principal", f"User:{case.name}", "--topic", TOPIC)
        assert f"principal=User:{case.name}" in "".join(allowed.out), allowed
        assert any(f"SCRAM credential configs for user-principal '{USER}'" in line for line in
                   run(tools, broker, case, "ConfigCommand", "--describe", "--entity-type", "users").out)  # fmt: skip
        assert run(tools, broker, case, "ConsumerGroupCommand", "--list").exit_code == 0

    assert failing(CASES, check, lambda case: case.name) == {}


def test_tools_say_what_is_wrong(broker: LoginBroker, tools: KafkaTools) -> None:
    def check(case: Login) -> None:
        said = run(tools, broker, case, "TopicCommand", "--list")
        assert said.exit_code == 1
        assert re.search(REFUSALS[case.name], "\n".join([*said.out, *said.err])), said

    assert failing([case for case in WRONG if case.name in REFUSALS], check, lambda case: case.name) == {}
    assert PASSWORD not in broker.process.output
    assert WRONG_PASSWORD not in broker.process.output
