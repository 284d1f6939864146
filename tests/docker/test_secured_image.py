"""The image with key stores and users in /etc/kafka/secrets, by the variables that images of Apache Kafka and Confluent take."""

from __future__ import annotations

from pathlib import Path

from minibroker.client.client import Client
from minibroker.client.security.connecting import connector
from minibroker.config.secret import Secret
from minibroker.security.certificates import TRUSTSTORE_PASSWORD, Authority, write_folder, write_keystore
from tests.docker.podman import Container, podman
from tests.support.ports import free_ports

STORE_PASSWORD, PASSWORD = "of the store", "alice-secret"


def write_secrets(folder: Path) -> None:
    write_folder(folder, ["localhost", "127.0.0.1"], client_name="alice")
    authority = Authority.load(folder)
    write_keystore(folder / "kafka.keystore.p12", authority.issue("broker", ["localhost"]), authority, Secret(STORE_PASSWORD))
    (folder / "credentials").write_text(f"{STORE_PASSWORD}\n")
    (folder / "trust-credentials").write_text(TRUSTSTORE_PASSWORD)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    (folder / "jaas.conf").write_text(f'KafkaServer {{\n  {module} required user_alice="{PASSWORD}";\n}};\n')
    folder.chmod(0o755)  # the user of the image is not root
    for file in folder.iterdir():
        file.chmod(0o644)


def test_secrets_come_from_a_mounted_folder(image: str, tmp_path: Path) -> None:
    write_secrets(tmp_path)
    login_port = free_ports(2)
    mutual_port = login_port + 1
    environment = {
        "KAFKA_LISTENERS": f"SASL_SSL://:{login_port},MUTUAL://:{mutual_port}",
        "KAFKA_ADVERTISED_LISTENERS": f"SASL_SSL://localhost:{login_port},MUTUAL://localhost:{mutual_port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SASL_SSL:SASL_SSL,MUTUAL:SSL",
        "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.keystore.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "credentials",
        "KAFKA_SSL_KEY_CREDENTIALS": "credentials",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "truststore.p12",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "trust-credentials",
        "KAFKA_LISTENER_NAME_MUTUAL_SSL_CLIENT_AUTH": "required",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/kafka/secrets/jaas.conf",
    }
    ca = {"ssl.ca.location": str(tmp_path / "ca.pem")}
    own = str(tmp_path / "client.pem")
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": PASSWORD, **ca}
    mutual = {"security.protocol": "SSL", "ssl.certificate.location": own, "ssl.key.location": own, **ca}
    ports = [f"{port}:{port}" for port in (login_port, mutual_port)]
    with Container(image, environment=environment, ports=ports, files={"/etc/kafka/secrets:ro": tmp_path}) as container:
        for port, config in ((login_port, login), (mutual_port, mutual)):
            with Client(f"localhost:{port}", timeout_ms=20_000, connect=connector(config)) as client:
                assert client.metadata(None).topics == []
        said = podman("exec", container.name, "minibroker", "container", "--health")
        assert f"127.0.0.1:{login_port} (SASL_SSL) answers, 127.0.0.1:{mutual_port} (SSL) answers" in said
        log = container.logs()
        assert "failed authentication" not in log  # the health check has no certificate
        assert not any(secret in log for secret in (STORE_PASSWORD, PASSWORD))
