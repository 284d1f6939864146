"""A broker full of things to look at: by clients, and by the actions of its console. Tests and the pictures of the documentation use it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any
from urllib.parse import quote

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
HOSTILE_SUBJECT = HOSTILE.partition("{")[0]  #: the registry's routes take no braces
LEGAL = "AZaz09._-" + "x" * 240  #: every legal character of a topic's name, and the longest one


def post(console: str, action: str, **body: Any) -> dict[str, Any]:
    """Do something by the console's HTTP. Raises AssertionError with its message."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{console}/do/{action}", data, {"Content-Type": "application/json"})  # noqa: S310  our own address
    try:
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310  as above
            found: dict[str, Any] = json.load(response)
            return found
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{action}: {error.code} {error.read().decode()}") from None


def get(console: str, path: str) -> Any:
    """Return the JSON twin of a page."""
    with urllib.request.urlopen(f"{console}{path}", timeout=30) as response:  # noqa: S310  as above
        return json.load(response)


def fill(bootstrap: str, console: str) -> None:
    """Create topics, records, transactions and groups as an application has them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic("orders", 3), NewTopic("payments", 2), NewTopic("customers", 1, config={"cleanup.policy": "compact"})]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "shop", "linger.ms": 5, "compression.type": "lz4"})
    for number in range(400):
        order = {"id": number, "user": {"id": number % 17, "name": f"user {number % 17}"}, "items": ["tea", "cups"][: 1 + number % 2],
                 "total": round(number * 3.14, 2)}  # fmt: skip
        producer.produce("orders", json.dumps(order), f"order-{number}", headers={"source": "shop", "trace": f"{number:016x}"})
        producer.poll(0)
    for number in range(40):
        producer.produce("customers", json.dumps({"name": f"user {number % 17}"}), f"user-{number % 17}")
    producer.produce("customers", None, "user-3")
    producer.flush(30)
    for round_ in range(6):
        for ending in ("commit", "abort") if round_ % 2 else ("commit",):
            post(console, "produce", topic="payments", partition="0", key=f"payment-{round_}", value='{"amount": 12.5}', copies=5,
                 transaction=ending, transactional_id="payments-1")  # fmt: skip
    post(console, "produce", topic="payments", partition="1", value="plain", copies=10)
    post(
        console,
        "produce",
        topic="payments",
        partition="1",
        value="not decided yet",
        copies=4,
        transaction="open",
        transactional_id="payments-2",
    )


def fill_registry(registry: str, login: str = "") -> None:
    """Register two versions of a schema, one that references it, one in a context, and one with a hostile name.

    `login` is USER:PASSWORD.
    """
    order = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
    user = {"type": "object", "properties": {"name": {"type": "string"}}}
    register(registry, "user", user, login=login)
    register(registry, "orders-value", order, login=login)
    both = order | {"properties": {"id": {"type": "integer"}, "user": {"$ref": "user.json"}}}
    register(registry, "orders-value", both, {"name": "user.json", "subject": "user", "version": 1}, login=login)
    register(registry, ":.test:orders-value", {"title": HOSTILE, "type": "string"}, login=login)
    register(registry, HOSTILE_SUBJECT, {"description": HOSTILE}, login=login)
    send(registry, "PUT", f"/config/{quote(HOSTILE_SUBJECT, safe='')}", {"compatibility": "NONE"}, login)


def register(registry: str, subject: str, schema: Any, *references: Any, login: str = "") -> int:
    """Register a JSON schema. Returns its id."""
    body = {"schemaType": "JSON", "schema": json.dumps(schema), "references": [*references]}
    found: int = send(registry, "POST", f"/subjects/{quote(subject, safe='')}/versions", body, login)["id"]
    return found


def send(registry: str, method: str, path: str, body: Any, login: str = "") -> Any:
    """Ask a schema registry."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {})
    request = urllib.request.Request(f"{registry}{path}", json.dumps(body).encode(), headers, method=method)  # noqa: S310  our own address
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310  as above
        return json.load(response)


def consume(bootstrap: str, group: str, *topics: str, count: int = 50, **settings: Any) -> Consumer:
    """Return a member of a group that has read and committed some records. The caller closes it."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, **settings}
    )  # fmt: skip
    consumer.subscribe([*topics])
    seen, deadline = 0, time.monotonic() + 30
    while seen < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        seen += message is not None and message.error() is None
    assert seen == count, f"{seen} of {count} records of {topics}"
    consumer.commit(asynchronous=False)
    return consumer


def fill_with_hostile(bootstrap: str, console: str) -> None:
    """Produce what a page must not execute, and what it must not break at."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("hostile", 1), NewTopic(LEGAL, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": HOSTILE, "message.max.bytes": 2_000_000})
    for name in ("hostile", LEGAL):
        producer.produce(name, HOSTILE, HOSTILE, headers=[(HOSTILE, HOSTILE.encode()), ("binary", b"\xff\xfe\x00")])
        producer.produce(name, b"\xff\xfe\x00\x01 not UTF-8", b"\xc3\x28")
        producer.produce(name, "\x00\x1b[31m\u202etxt.exe\u2066", "\x00")
        producer.produce(name, "x" * 900_000, "large")
        producer.produce(name, '{"a": ' * 300 + "1" + "}" * 300, "deep")
        producer.produce(name, "", "")
        producer.produce(name, None, None)
    producer.flush(30)
    post(console, "produce", topic="hostile", value=HOSTILE, transaction="open", transactional_id=HOSTILE)
    consume(bootstrap, HOSTILE, "hostile", count=5, **{"client.id": HOSTILE}).close()
    consume(bootstrap, "group/with?every&letter#%", "hostile", count=5).close()
