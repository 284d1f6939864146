"""Clients in Python, and kcat, that log in, rightly and wrongly: python_logins.py CLIENT CASES FOLDER (tests/clients/logins.py)."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE_S = 40.0
REFUSED_S = 3.0  #: for a case that is refused, in clients that try until their time is over
Case = dict[str, Any]
_current: contextvars.ContextVar[list[str]] = contextvars.ContextVar("errors")


class Refused(Exception):  # noqa: N818  named for what happened
    """The client's own error."""


def _librdkafka(case: Case) -> dict[str, Any]:
    found = {
        "bootstrap.servers": case["Bootstrap"], "security.protocol": case["Protocol"], "ssl.ca.location": case["Ca"],
        "ssl.certificate.location": case["Certificate"], "ssl.key.location": case["Certificate"], "sasl.mechanism": case["Mechanism"],
    }  # fmt: skip
    if case["Mechanism"] and case["Mechanism"] != "OAUTHBEARER":
        found |= {"sasl.username": case["User"], "sasl.password": case["Password"]}
    return {name: value for name, value in found.items() if value}


def play_confluent(case: Case) -> None:
    """Play a case with confluent-kafka."""
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

    errors: list[KafkaError] = []
    config: dict[str, Any] = _librdkafka(case) | {"log_level": 0, "error_cb": errors.append}
    if case["Token"]:
        config["oauth_cb"] = lambda _: (case["Token"], time.time() + 3600)
    producer = Producer(config)
    producer.produce(case["Topic"], case["Name"].encode())
    ends_s = time.monotonic() + PATIENCE_S
    while producer.flush(0.1) and time.monotonic() < ends_s:
        if any(error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT) for error in errors):
            producer.purge()
            producer.flush(1)
            raise Refused(f"{errors[0].name()} {errors[0].str()}")
    consumer = Consumer(config | {"group.id": case["Name"], "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(case["Topic"], 0, 0)])
    while time.monotonic() < ends_s:
        message = consumer.poll(1)
        if message is not None and message.error() is None and message.value().decode() == case["Name"]:
            consumer.close()
            return
    raise TimeoutError


def play_kcat(case: Case) -> None:
    """Play a case with kcat."""
    settings = _librdkafka(case)
    if case["Mechanism"] == "OAUTHBEARER":
        settings |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={case['User']}"}
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    if case["Refused"]:
        _run_kcat("-L", "-m", "5", *options)
        return
    _run_kcat("-P", "-t", case["Topic"], "-p", "0", *options, stdin=case["Name"])
    read = _run_kcat("-C", "-t", case["Topic"], "-p", "0", "-o", "beginning", "-e", "-q", *options)
    assert case["Name"] in read.splitlines()


def _run_kcat(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def _tls(case: Case) -> ssl.SSLContext | None:
    if not case["Ca"]:
        return None
    context = ssl.create_default_context(cafile=case["Ca"])
    if case["Certificate"]:
        context.load_cert_chain(case["Certificate"])
    return context


def _python(case: Case, provider: Any) -> dict[str, Any]:
    found = {"bootstrap_servers": case["Bootstrap"], "security_protocol": case["Protocol"], "ssl_context": _tls(case)}
    if case["Token"]:
        found |= {"sasl_oauth_token_provider": provider}
    elif case["Mechanism"]:
        found |= {"sasl_plain_username": case["User"], "sasl_plain_password": case["Password"]}
    return found | ({"sasl_mechanism": case["Mechanism"]} if case["Mechanism"] else {})


def play_kafka_python(case: Case) -> None:
    """Play a case with kafka-python, which logs why a connection fails."""
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
        def token(self) -> str:
            return str(case["Token"])

    config = _python(case, Provider())
    lines: list[str] = []
    _current.set(lines)
    patience_s = REFUSED_S if case["Refused"] else PATIENCE_S
    try:
        producer = kafka.KafkaProducer(**config, max_block_ms=int(PATIENCE_S * 1000), bootstrap_timeout_ms=int(patience_s * 1000))
    except kafka.errors.KafkaError as error:
        raise Refused(f"{error}: {' '.join(lines)}") from None
    producer.send(case["Topic"], case["Name"].encode()).get(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(**config, consumer_timeout_ms=int(PATIENCE_S * 1000))
    consumer.assign([kafka.TopicPartition(case["Topic"], 0)])
    consumer.seek_to_beginning()
    assert any(record.value.decode() == case["Name"] for record in consumer)
    consumer.close()


async def play_aiokafka(case: Case) -> None:
    """Play a case with aiokafka, which logs why a connection fails."""
    import aiokafka
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
        async def token(self) -> str:
            return str(case["Token"])

    config = _python(case, Provider())
    errors: list[str] = []
    _current.set(errors)
    try:
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(case["Topic"], case["Name"].encode())
    except aiokafka.errors.KafkaError as error:
        raise Refused(f"{error}: {' '.join(errors)}") from None
    async with aiokafka.AIOKafkaConsumer(**config) as consumer:
        partition = aiokafka.TopicPartition(case["Topic"], 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        async for record in consumer:
            if record.value.decode() == case["Name"]:
                return


class _ByCase(logging.Handler):
    """Gives each line to the case whose task or thread logged it."""

    def emit(self, record: logging.LogRecord) -> None:
        _current.get([]).append(record.getMessage())


async def _play_all_aiokafka(cases: list[Case]) -> None:
    async def play(case: Case) -> None:
        try:
            await asyncio.wait_for(play_aiokafka(case), REFUSED_S if case["Refused"] else PATIENCE_S)
        except Exception as error:  # noqa: BLE001  it is reported
            _report(case, error)
        else:
            _report(case)

    await asyncio.gather(*(play(case) for case in cases))


def _report(case: Case, error: Exception | None = None) -> None:
    text = "ok" if error is None else f"{type(error).__name__} {error}".replace("\n", " ")
    sys.stdout.write(f"{case['Name']}\t{text}\n")  # in one write, because of the threads


def _play_all(cases: list[Case], play: Callable[[Case], None]) -> None:
    def reported(case: Case) -> None:
        try:
            play(case)
        except Exception as error:  # noqa: BLE001  it is reported
            _report(case, error)
        else:
            _report(case)

    with ThreadPoolExecutor(len(cases)) as threads:
        list(threads.map(reported, cases))


def main() -> None:
    """Run the command line."""
    client, file, _ = sys.argv[1:]
    cases = json.loads(Path(file).read_text())
    logging.basicConfig(handlers=[_ByCase()], level=logging.ERROR)
    if client == "aiokafka":
        asyncio.run(_play_all_aiokafka(cases))
    else:
        _play_all(cases, {"confluent-kafka": play_confluent, "kafka-python": play_kafka_python, "kcat": play_kcat}[client])
    sys.stdout.flush()
    os._exit(0)  # threads of clients that cannot log in may live on


main()
