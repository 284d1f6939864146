"""Capture what an Apache Kafka with an authorizer answers about delegation tokens: scenes of many users, and frames of real clients.

Needs Java with Maven, and Go. The scenes go to delegation_tokens_kafka_4.3.1.json; the frames come from Kafka's DelegationTokenCommand and
from franz-go (each version), which log in as alice through a proxy.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from minibroker.client.access import creation_of
from minibroker.schemas import k30_create_acls as k30
from tests.golden import token_scenes
from tests.golden.captures import drive_clients, write_frames
from tests.golden.captures.clients import HERE, TOKEN_KEYS, keep
from tests.golden.token_scenes import ACLS, ADMIN, ALICE, ANSWERS, PLAIN, SECRET, USERS, Notes, Scenes
from tests.support import java
from tests.support.access import acl
from tests.support.capture_proxy import CaptureProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.kafka_users import PASSWORD, KafkaUser, settings_with_users
from tests.support.ports import free_port

COMMAND = "org.apache.kafka.tools.DelegationTokenCommand"
PROVENANCE = {
    "broker": "Apache Kafka 4.3.1, one KRaft node with StandardAuthorizer, PLAINTEXT and SASL_PLAINTEXT",
    "command": "python -m tests.golden capture delegation_tokens",
}


@contextmanager
def kafka(settings: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    """Start it; yields the ports of the plain listener, of SASL, and the one that clients of SASL see."""
    port, sasl_port, controller_port, proxy_port = (free_port() for _ in range(4))
    lines = {
        **settings_with_users(port, sasl_port, controller_port, USERS),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{proxy_port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        **settings,
    }
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=lines, port=port):
        yield port, sasl_port, proxy_port


def scenes_of(port: int, sasl_port: int, users: ExitStack) -> Scenes:
    """Scenes that are played by connections of their users."""
    clients: dict[str, Any] = {user: users.enter_context(KafkaUser(sasl_port, user)) for user in (*USERS, ADMIN)}
    clients[PLAIN] = users.enter_context(KafkaUser(port, PLAIN))

    def ask(user: str, request: Any, version: int) -> Any:
        return clients[user].ask(request, version)

    def login(name: str, token_id: str, token_hmac: bytes) -> None:
        clients[name] = users.enter_context(KafkaUser(sasl_port, token_id, token_hmac))

    return Scenes(ask, login, lambda ms: time.sleep(ms / 1000))


def allow(port: int, lines: Iterable[str]) -> None:
    """Create access control entries."""
    entries = [creation_of(acl(line)) for line in lines]
    with KafkaUser(port, PLAIN) as admin:
        assert {each.error_code for each in admin.ask(k30.Request(creations=entries)).results} == {0}


def java_tool(bootstrap: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as config:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        config.write("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n")
        config.write(f'sasl.jaas.config={module} username="{ALICE}" password="{PASSWORD}";\n')
        config.flush()
        at = ("--bootstrap-server", bootstrap, "--command-config", config.name)
        made = java.run_tool(COMMAND, *at, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        found = re.search(r"\s(\S{80,})\s", made)
        assert found, made
        java.run_tool(COMMAND, *at, "--renew", "--renew-time-period", "3600000", "--hmac", found[1])
        java.run_tool(COMMAND, *at, "--describe", "--owner-principal", "User:alice")
        java.run_tool(COMMAND, *at, "--expire", "--expiry-time-period", "-1", "--hmac", found[1])


def franz_go(bootstrap: str) -> None:
    subprocess.run(["go", "run", ".", bootstrap, "tokens", ALICE, PASSWORD], cwd=HERE / "franz_go", check=True)


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """Label of a frame -> what drives the client, its name and version for people, the command."""
    return {
        f"java_{java.KAFKA_VERSION}_tokens": (
            java_tool,
            f"Apache Kafka's DelegationTokenCommand {java.KAFKA_VERSION}",
            "captures.delegation_tokens.java_tool",
        ),
        "franz_go_1.22.2_tokens": (franz_go, "franz-go 1.22.2", "tests/golden/franz_go tokens, each version pinned"),
    }


def capture_frames(sasl_port: int, proxy_port: int) -> None:
    """Write the frames of the clients."""
    proxy = CaptureProxy(proxy_port, ("127.0.0.1", sasl_port))
    catalogue = clients()
    drive_clients(proxy, catalogue)
    proxy.close()
    write_frames(keep(proxy.frames, catalogue, TOKEN_KEYS))


def capture() -> None:
    played: dict[str, Notes] = {}
    with kafka({"delegation.token.secret.key": SECRET}) as (port, sasl_port, proxy_port), ExitStack() as users:
        allow(port, ACLS)
        played["with a key"] = token_scenes.play(scenes_of(port, sasl_port, users))
        played["odd owners"] = token_scenes.play_odd_owners(scenes_of(port, sasl_port, users))
        capture_frames(sasl_port, proxy_port)
    with kafka({}) as (port, sasl_port, _), ExitStack() as users:
        played["without a key"] = token_scenes.play_without_key(scenes_of(port, sasl_port, users))
    lines = ",\n".join(
        f"  {json.dumps(title)}: [\n" + ",\n".join(f"    {json.dumps(note)}" for note in notes) + "\n  ]" for title, notes in played.items()
    )
    ANSWERS.write_text(f'{{"provenance": {json.dumps(PROVENANCE)},\n{lines}\n}}\n')
