"""serve --sasl, --super-user, --acl: users and entries that a broker has from its first request on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from minibroker.errors import ConfigurationError
from minibroker.server.initial_access import MECHANISMS, initial_access
from tests.support.broker_process import BrokerProcess

OPTIONS = (
    "--sasl", "admin:s3cret", "--sasl", 'alice:pa:ss"\\word', "--sasl", "bob:b:SCRAM-SHA-512", "--super-user", "admin",
    "--acl", "alice allow WRITE,CREATE TOPIC orders-*", "--acl", "bob allow READ TOPIC orders-1", "--acl", "bob allow READ GROUP g",
)  # fmt: skip


def config(broker: BrokerProcess, user: str, password: str, mechanism: str = "PLAIN", **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.port}", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "sasl.username": user, "sasl.password": password, "log_level": 0, **more,
    }  # fmt: skip


def test_users_and_entries_hold_from_the_first_request_and_stay(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *OPTIONS) as broker:
        assert broker.output.startswith("minibroker ready: SASL_PLAINTEXT://localhost:")
        admin = AdminClient(config(broker, "admin", "s3cret", "SCRAM-SHA-256"))
        admin.create_topics([NewTopic("orders-1", 1, 1), NewTopic("other", 1, 1)])["other"].result(timeout=30)
        sent: list[Any] = []
        producer = Producer(config(broker, "alice", 'pa:ss"\\word'))
        for topic in ("orders-1", "other"):
            producer.produce(topic, b"x", on_delivery=lambda error, _message: sent.append(error))
            producer.flush(30)
        assert sent[0] is None
        assert sent[1].name() == "TOPIC_AUTHORIZATION_FAILED"
        consumer = Consumer(config(broker, "bob", "b", "SCRAM-SHA-512", **{"group.id": "g", "auto.offset.reset": "earliest"}))
        consumer.subscribe(["orders-1"])
        assert consumer.consume(1, timeout=30)[0].value() == b"x"
        consumer.close()
        assert broker.stop() == 0
    with BrokerProcess(tmp_path, *OPTIONS) as again:
        admin = AdminClient(config(again, "admin", "s3cret", "SCRAM-SHA-512"))
        every = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )  # fmt: skip
        assert len(admin.describe_acls(every).result(timeout=30)) == 4  # those of the first start, not twice


def test_a_wrong_password_or_mechanism_is_refused_without_a_secret_in_the_log(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *OPTIONS, "--log-level", "info") as broker:
        for user, password, mechanism in (("alice", "wr0ng-one", "PLAIN"), ("nobody", "wr0ng-one", "PLAIN"), ("bob", "b", "PLAIN")):
            errors: list[Any] = []
            admin = AdminClient(config(broker, user, password, mechanism, error_cb=errors.append))
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=2)
            admin.poll(1)
            assert any(error.name() == "_AUTHENTICATION" for error in errors)
        assert broker.stop() == 0
        text = broker.output
    assert "Failed authentication with /127.0.0.1" in text
    assert "wr0ng-one" not in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("--sasl", "alice"),
            "--sasl: write USER:PASSWORD or USER:PASSWORD:MECHANISM with a mechanism of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (("--sasl", "a b:secret-word"), "--sasl: the name 'a b' may have letters, digits"),
        (("--acl", "alice may"), "is not an access control entry"),
        (("--super-user", "a", "--lab-port", "0", "--lab-host", "0.0.0.0"), "--lab-host: 0.0.0.0 lets other machines control the broker"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    command = [sys.executable, "-m", "minibroker", "serve", "--data-dir", str(tmp_path), "--port", "0", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert problem in line
    assert "secret-word" not in line


def test_a_user_has_every_mechanism_unless_one_is_named() -> None:
    access = initial_access(["a:x", "b:y:PLAIN", "c:d:e"], ["admin", "User:root"], [])
    assert [(user.name, user.password, user.mechanisms) for user in access.users] == [
        ("a", "x", MECHANISMS),
        ("b", "y", ("PLAIN",)),
        ("c", "d:e", MECHANISMS),
    ]
    assert access.super_users == ("User:admin", "User:root")
    assert "x" not in repr(access.users[0])
    with pytest.raises(ConfigurationError, match="user a is given twice"):
        initial_access(["a:x", "a:y"], [], [])


def test_secure_encrypts_and_shows_the_password_once(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    with BrokerProcess(tmp_path, "--secure", "--tls-dir", str(folder)) as broker:
        login, ready = broker.output.splitlines()
        assert ready.startswith("minibroker ready: SASL_SSL://localhost:")
        password = login.split()[3]
        assert login == f"user admin, password {password} (shown once; {folder}/admin.properties has it for clients)"
        secure = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(folder / "ca.pem")}
        admin = AdminClient(config(broker, "admin", password, "SCRAM-SHA-512", **secure))
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(timeout=30)
        with pytest.raises(KafkaException):
            AdminClient(config(broker, "admin", "wrong", **secure)).list_topics(timeout=2)
        command = [sys.executable, "-m", "minibroker", "topics", "list", "-b", f"127.0.0.1:{broker.port}"]
        with_file = [*command, "--command-config", str(folder / "admin.properties")]
        listed = subprocess.run(with_file, capture_output=True, text=True, timeout=60, check=False)
        assert "orders" in listed.stdout, listed.stderr
        assert broker.stop() == 0
    assert {path.name for path in folder.iterdir() if path.stat().st_mode & 0o077} == {
        "ca.pem", "truststore.p12", "client.properties", "librdkafka.properties"
    }  # fmt: skip
    with BrokerProcess(tmp_path, "--secure", "--tls-dir", str(folder)) as again:
        assert len(again.output.splitlines()) == 1  # the password is not shown again
        admin = AdminClient(config(again, "admin", password, **secure))
        assert "orders" in admin.list_topics(timeout=30).topics


def test_tls_and_mutual_tls(tmp_path: Path) -> None:
    folder = tmp_path / "data.tls"
    with BrokerProcess(tmp_path, "--tls") as broker:
        found = Path(f"{broker.data_dir}.tls")
        assert broker.output.startswith("minibroker ready: SSL://localhost:")
        properties = {"bootstrap.servers": f"localhost:{broker.port}", "log_level": 0, "security.protocol": "SSL"}
        AdminClient({**properties, "ssl.ca.location": str(found / "ca.pem")}).list_topics(timeout=30)
        with pytest.raises(KafkaException):
            AdminClient(properties).list_topics(timeout=2)
    with BrokerProcess(tmp_path, "--mtls", "--tls-dir", str(folder)) as broker:
        properties |= {"bootstrap.servers": f"localhost:{broker.port}", "ssl.ca.location": str(folder / "ca.pem")}
        with pytest.raises(KafkaException):
            AdminClient(properties).list_topics(timeout=2)
        own = {"ssl.certificate.location": str(folder / "client.pem"), "ssl.key.location": str(folder / "client.pem")}
        AdminClient(properties | own).list_topics(timeout=30)
