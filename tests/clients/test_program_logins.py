"""Real clients log in by every mechanism, with TLS and without, by IPv4 and IPv6, and say what is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients import group_members
from tests.clients.logins import DELEGATED, PASSWORD, RIGHT, WRONG, WRONG_PASSWORD, Login, LoginBroker, login_broker
from tests.clients.spoken_clients import HERE, building
from tests.support.java import SHORT_LIVED, STREAMS, class_data, jars, kafka_jars

TIMEOUT_S = 120


def _kafkajs() -> list[str]:
    (node, members) = group_members.kafkajs()
    return [node, str(Path(members).with_name("logins.js"))]


def _python(client: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(HERE / "members" / "python_logins.py"), client]


def _kcat() -> list[str]:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    return _python("kcat")()


def _java() -> list[str]:
    libraries = f"{kafka_jars()}/*:{jars(*STREAMS) / STREAMS[0]}.jar"  # first what `class_data` was made of
    source = HERE / "java" / "Logins.java"
    with building("Logins", [source]) as classes:
        if not (classes / "Logins.class").exists():
            if shutil.which("javac") is None:
                pytest.skip("javac is not installed")
            subprocess.run(["javac", "--release", "11", "-cp", libraries, "-d", str(classes), str(source)], check=True)
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dfile.encoding=UTF-8"]
    return ["java", "-Xmx512m", *SHORT_LIVED, *class_data(kafka_jars()), *quiet, "-cp", f"{libraries}:{classes}", "Logins"]


Program = Callable[[], list[str]]  #: returns the command of a client
PROGRAMS: Mapping[str, Program] = {
    "confluent-kafka": _python("confluent-kafka"),
    "kafka-python": _python("kafka-python"),
    "aiokafka": _python("aiokafka"),
    "kcat": _kcat,
    "java": _java,
    "franz-go": lambda: [*group_members.franz_go(), "logins"],
    "sarama": lambda: [*group_members.sarama(), "logins"],
    "kafkajs": _kafkajs,
}


def cannot(client: str, case: Login) -> bool:
    """Whether a client cannot play a case."""
    is_ipv6 = case.listener.endswith("6")
    match client:
        case "kafkajs":
            return is_ipv6  # it cannot read [::1]:9092
        case "kcat":
            # librdkafka 2.0 compares the certificate with "[::1]"; kcat makes its own tokens of OAUTHBEARER, which never are expired.
            return (is_ipv6 and case.protocol.endswith("SSL")) or bool(case.signer) or case.is_expired
        case "java":
            return case.name == "TLS-to-PLAINTEXT"  # it tries until its time is over, as with Apache Kafka
    return False


#: What each client says. The broker's words are the same for all.
_PLAIN_REFUSED = "Authentication failed: Invalid username or password"
_REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
_TOKENS = ("expired-token", "unsigned-token", "forged-token", "expired-signed-token")
_SASL = {
    f"{problem}-{mechanism}": _PLAIN_REFUSED if mechanism == "PLAIN" else f"{_REFUSED}{mechanism}"
    for problem in ("wrong-password", "unknown-user")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
}
_GO = {
    **_SASL,
    **dict.fromkeys(_TOKENS, "unexpected data in oauth response"),
    "wrong-CA": "x509: certificate signed by unknown authority",
    "wrong-host-name": "x509: cannot validate certificate for 127.0.0.1",
    "expired-certificate": "x509: certificate has expired or is not yet valid: .* is after",
    "early-certificate": "x509: certificate has expired or is not yet valid: .* is before",
    "TLS-to-PLAINTEXT": "is TLS misconfigured on the client or the broker",
    "no-client-certificate": "remote error: tls: certificate required",
    "stranger's-certificate": "remote error: tls: unknown certificate authority",
}
_CERTIFICATES = ("wrong-CA", "wrong-host-name", "expired-certificate", "early-certificate")
_LIBRDKAFKA = {
    **_SASL,
    **dict.fromkeys(_TOKENS, r'SASL authentication error: \{"status":"invalid_token"\}'),
    **dict.fromkeys(_CERTIFICATES, "certificate verify failed: broker certificate could not be verified"),
    "TLS-to-PLAINTEXT": "SSL handshake failed: (Disconnected|.*unexpected eof)",
    "no-client-certificate": "alert certificate required",
    "stranger's-certificate": "alert unknown ca",
}
_PYTHON = {
    **_SASL,
    "wrong-CA": "certificate verify failed: self-signed certificate in certificate chain",
    "wrong-host-name": "certificate is not valid for '127.0.0.1'",
    "expired-certificate": "certificate verify failed: certificate has expired",
    "early-certificate": "certificate verify failed: certificate is not yet valid",
}
REFUSALS = {
    "confluent-kafka": {name: f"^Refused _(AUTHENTICATION|SSL|TRANSPORT) .*{text}" for name, text in _LIBRDKAFKA.items()},
    "kcat": _LIBRDKAFKA,
    "kafka-python": {
        **_PYTHON,
        # By TLS it may see the close before the answer, and then does not read the answer, also with Apache Kafka. It tries again.
        **{name: f"SaslAuthenticationFailedError: {text}|socket disconnected" for name, text in _SASL.items()},
        **dict.fromkeys(_TOKENS, r'SaslAuthenticationFailedError: \{"status":"invalid_token"\}|socket disconnected'),
        "TLS-to-PLAINTEXT": "Connection failed: .*SSL",
        "no-client-certificate": "certificate required",
        "stranger's-certificate": "unknown ca",
    },
    "aiokafka": {
        **_PYTHON,
        **dict.fromkeys(_TOKENS, "^TimeoutError"),  # it takes the refusal for a success, and waits
        "TLS-to-PLAINTEXT": "Unable to bootstrap",
        "no-client-certificate": "Connection at .* closed",
        "stranger's-certificate": "Connection at .* closed",
    },
    "java": {
        **{name: f"^SaslAuthenticationException: {text}$" for name, text in _SASL.items()},
        **dict.fromkeys(_TOKENS, r'^SaslAuthenticationException: \{"status":"invalid_token"\}$'),
        "wrong-CA": r"^SslAuthenticationException: SSL handshake failed \(unable to find valid certification path to requested target\)$",
        "wrong-host-name": r"^SslAuthenticationException: .*\(No subject alternative names matching IP address 127.0.0.1 found\)$",
        "expired-certificate": r"^SslAuthenticationException: .*\(NotAfter: .*\)$",
        "early-certificate": r"^SslAuthenticationException: .*\(NotBefore: .*\)$",
        "no-client-certificate": r"^SslAuthenticationException: .*Received fatal alert: certificate_required\)$",
        "stranger's-certificate": r"^SslAuthenticationException: .*Received fatal alert: unknown_ca\)$",
    },
    "franz-go": _GO,
    "sarama": {**_GO, **dict.fromkeys(_TOKENS, f"{_REFUSED}OAUTHBEARER"), "TLS-to-PLAINTEXT": "EOF"},
    "kafkajs": {
        **_SASL,
        # It takes the refusal for a success, also on Apache Kafka. The broker closes the connection at its next request.
        **dict.fromkeys(_TOKENS, "^ok$|[Cc]losed"),
        "wrong-CA": "self-signed certificate in certificate chain",
        "wrong-host-name": "Hostname/IP does not match certificate's altnames",
        "expired-certificate": "certificate has expired",
        "early-certificate": "certificate is not yet valid",
        "TLS-to-PLAINTEXT": "disconnected before secure TLS connection was established",
        "no-client-certificate": "alert certificate required",
        "stranger's-certificate": "alert unknown ca",
    },
}
_LOGGED = re.compile(
    r" INFO .*: Failed authentication with /127\.0\.0\.1 \(channelId=\S+\) \(.+\)$"
    r"| WARNING .*: failed authentication of 127\.0\.0\.1 on \w+: TLS handshake failed: .+$"
    r"| WARNING .*: closing the connection of 127\.0\.0\.1 on PLAINTEXT: .*: the peer speaks TLS, this side does not$"
    r"| INFO (?!.*[Ff]ailed)"
    r"| WARNING .* held the event loop for "  # on a busy machine
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with login_broker(tmp_path_factory.mktemp("logins")) as found:
        yield found


# A program of its own for each client: only those that need Java or Go belong to `make test-all`.
@pytest.mark.parametrize(("client", "program"), [pytest.param(name, program, id=name) for name, program in PROGRAMS.items()])
def test_logins(broker: LoginBroker, client: str, program: Program, tmp_path: Path) -> None:
    command = program()
    delegated = DELEGATED if client in ("java", "franz-go") else ()
    right, wrong = ([case for case in cases if not cannot(client, case)] for cases in ((*RIGHT, *delegated), WRONG))
    before = len(broker.process.output)
    words = [*command, str(broker.cases_file((*right, *wrong))), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
    outcomes = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert {case.name: outcomes.get(case.name) for case in right} == {case.name: "ok" for case in right}, done.stderr
    found = {case.name: outcomes.get(case.name, "") for case in wrong}
    assert [name for name, text in found.items() if not re.search(REFUSALS[client][name], text)] == [], found
    _check_log(broker.process.output[before:])


def _check_log(log: str) -> None:
    """Check that every line has a known form, that PLAIN and both SCRAMs left a line, and that no line has a password or a token."""
    lines = log.splitlines()
    assert [line for line in lines if not _LOGGED.search(line)] == []
    for case in WRONG[:6]:
        assert any(f"mechanism {case.mechanism}" in line or "Invalid username or password)" in line for line in lines), log
    for secret in (PASSWORD, WRONG_PASSWORD, "eyJ"):  # tokens are JSON objects in base64
        assert secret not in log
