"""franz-go, sarama and kafkajs log in by every mechanism, with TLS and without, by IPv4 and IPv6, and say what is wrong."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients import group_members
from tests.clients.logins import PASSWORD, RIGHT, WRONG, WRONG_PASSWORD, LoginBroker, login_broker

TIMEOUT_S = 120


def _kafkajs() -> list[str]:
    (node, members) = group_members.kafkajs()
    return [node, str(Path(members).with_name("logins.js"))]


PROGRAMS: Mapping[str, Callable[[], list[str]]] = {
    "franz-go": lambda: [*group_members.franz_go(), "logins"],
    "sarama": lambda: [*group_members.sarama(), "logins"],
    "kafkajs": _kafkajs,
}


#: What each client says. The broker's words are the same for all.
_PLAIN_REFUSED = "Authentication failed: Invalid username or password"
_REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
_SASL = {
    f"{problem}-{mechanism}": _PLAIN_REFUSED if mechanism == "PLAIN" else f"{_REFUSED}{mechanism}"
    for problem in ("wrong-password", "unknown-user")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
}
_GO = {
    **_SASL,
    "expired-token": "unexpected data in oauth response",
    "wrong-CA": "x509: certificate signed by unknown authority",
    "wrong-host-name": "x509: cannot validate certificate for 127.0.0.1",
    "expired-certificate": "x509: certificate has expired or is not yet valid: .* is after",
    "early-certificate": "x509: certificate has expired or is not yet valid: .* is before",
    "no-client-certificate": "remote error: tls: certificate required",
    "stranger's-certificate": "remote error: tls: unknown certificate authority",
}
REFUSALS = {
    "franz-go": _GO,
    "sarama": {**_GO, "expired-token": f"{_REFUSED}OAUTHBEARER"},
    "kafkajs": {
        **_SASL,
        "expired-token": "^ok$|[Cc]losed",  # kafkajs takes the refusal for a success; the broker closes the connection at its next request
        "wrong-CA": "self-signed certificate in certificate chain",
        "wrong-host-name": "Hostname/IP does not match certificate's altnames",
        "expired-certificate": "certificate has expired",
        "early-certificate": "certificate is not yet valid",
        "no-client-certificate": "alert certificate required",
        "stranger's-certificate": "alert unknown ca",
    },
}
_LOGGED = re.compile(
    r" INFO .*: Failed authentication with /127\.0\.0\.1 \(channelId=\S+\) \(.+\)$"
    r"| WARNING .*: failed authentication of 127\.0\.0\.1 on \w+: TLS handshake failed: .+$"
    r"| INFO (?!.*[Ff]ailed)"
    r"| WARNING minibroker\.server\.watchdog: "  # on a busy machine
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with login_broker(tmp_path_factory.mktemp("logins")) as found:
        yield found


@pytest.mark.parametrize("client", PROGRAMS)
def test_logins(broker: LoginBroker, client: str) -> None:
    command = PROGRAMS[client]()
    before = len(broker.process.output)
    done = subprocess.run(
        [*command, str(broker.cases_file((*RIGHT, *WRONG)))], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    outcomes = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    right = [case.name for case in RIGHT if client != "kafkajs" or "IPv6" not in case.name]  # it cannot read [::1]:9092
    assert {name: outcomes.get(name) for name in right} == dict.fromkeys(right, "ok")
    found = {case.name: outcomes.get(case.name, "") for case in WRONG}
    assert [name for name, text in found.items() if not re.search(REFUSALS[client][name], text)] == [], found
    _check_log(broker.process.output[before:])


def _check_log(log: str) -> None:
    """Check that every line has a known form, that PLAIN and both SCRAMs left a line, and that no line has a password."""
    lines = log.splitlines()
    assert [line for line in lines if not _LOGGED.search(line)] == []
    for case in WRONG[:6]:
        assert any(f"mechanism {case.mechanism})" in line or "Invalid username or password)" in line for line in lines), log
    assert PASSWORD not in log
    assert WRONG_PASSWORD not in log
