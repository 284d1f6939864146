"""Capture which key stores Apache Kafka takes (keystore_cases.py). Writes keystores_kafka_4.3.1.json. Needs Java, openssl."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.keystore_cases import APIVERSIONS, CASES, client_context, common_names, properties_of, seen
from tests.golden.keystore_files import StoreFiles
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port

FILE = Path(__file__).parents[1] / "keystores_kafka_4.3.1.json"


def capture() -> None:
    """Make the files, start a Kafka for each case, and write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        StoreFiles(folder).write()
        outcomes = {case: _outcome(case, folder) for case in CASES}
        texts = {
            file.name: _as_text(file.read_bytes()) for file in sorted(folder.iterdir()) if file.suffix != ".crt" or "trust" in file.name
        }
        texts["root.crt"] = (folder / "root.crt").read_text()
    provenance = (
        "Apache Kafka 4.3.1, one KRaft node, Java 17; files of OpenSSL 3.0 and keytool of Java 17; python -m tests.golden capture keystores"
    )
    FILE.write_text(f'{{"provenance": {json.dumps(provenance)}, "outcomes": {_lines(outcomes)}, "files": {_lines(texts)}}}\n')


def _outcome(case: str, files: Path) -> Any:
    port = free_port()
    settings = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL"}
    for name, value in properties_of(case, files, "listener.name.tls.").items():
        settings[name] = json.dumps(value)[1:-1]  # escapes as in properties of Java
    with tempfile.TemporaryDirectory() as folder:
        try:
            kafka = KafkaProcess(Path(folder), settings=settings, listeners=[f"TLS://localhost:{port}"])
        except AssertionError:
            return {"refused": _reason((Path(folder) / "out.txt").read_text())}
        with kafka:
            return seen(case, lambda client: _connect(port, client_context(files, client)))


def _reason(output: str) -> str:
    causes = re.findall(r"^(?:Caused by|org\.apache\.kafka\.\S+): .*$", output, re.MULTILINE)
    return str(causes[-1] if causes else output[-300:])


def _connect(port: int, context: ssl.SSLContext) -> list[str]:
    with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain, server_hostname="localhost") as secured:
        secured.sendall(APIVERSIONS)
        if not secured.recv(4):  # with TLS 1.3 a client learns after the handshake that it is refused
            raise ConnectionError
        chain: Any = secured._sslobj.get_unverified_chain()  # type: ignore[attr-defined]  # public since Python 3.13
        return common_names(chain)


def _as_text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"


def _lines(found: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()) + "\n}"
