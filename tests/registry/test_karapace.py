"""Takeover with Karapace, Aiven's schema registry: each serves what the other one wrote, and both run at once.

Run by hand: KARAPACE is the folder of a checkout whose `src` can be imported by KARAPACE_PYTHON (with its requirements, `avro`, and
`protopacelib` built from its `go/protopace`).

    KARAPACE=~/karapace KARAPACE_PYTHON=~/karapace/.venv/bin/python pytest tests/registry/test_karapace.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

FOLDER = os.environ.get("KARAPACE", "")
PYTHON = os.environ.get("KARAPACE_PYTHON", "python3")
pytestmark = pytest.mark.skipif(not FOLDER, reason="KARAPACE names no checkout of Karapace")


def send(url: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status and the JSON of a response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/vnd.schemaregistry.v1+json"}, method=method)  # noqa: S310  our own
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  likewise
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


@contextmanager
def karapace(bootstrap: str) -> Iterator[str]:
    """A Karapace on the broker, which is the leader of its group. Yields its URL."""
    port = free_port()
    settings = {
        "BOOTSTRAP_URI": bootstrap, "PORT": port, "HOST": "127.0.0.1", "ADVERTISED_HOSTNAME": "127.0.0.1", "ADVERTISED_PORT": port,
        "KARAPACE_REGISTRY": "true", "KARAPACE_REST": "false", "REPLICATION_FACTOR": 1, "COMPATIBILITY": "BACKWARD",
    }  # fmt: skip
    env = os.environ | {f"KARAPACE_{name}": str(value) for name, value in settings.items()} | {"PYTHONPATH": "src"}
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            return bool(send(url, "GET", "/master_available")[1] == {"master_available": True})
        except OSError:
            return False

    with subprocess.Popen([PYTHON, "-m", "karapace"], cwd=FOLDER, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert becomes(is_ready, timeout_s=120)
            yield url
        finally:
            process.kill()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--registry-port", "0") as broker:
        yield broker


def url_of(broker: BrokerProcess) -> str:
    found = re.search(r"registry (http://\S+?),", broker.output)
    assert found is not None
    return found[1]


def record(*fields: str, name: str = "R") -> dict[str, Any]:
    listed = [{"name": each, "type": "int", "default": 0} for each in fields]
    return {"schema": json.dumps({"type": "record", "name": name, "namespace": "n.s", "fields": listed})}


def content(prefix: str) -> list[tuple[str, dict[str, Any]]]:
    """Schemas of all types, with references, by subject. Those of the same prefix are the same ones."""
    properties = '{"type": "object", "properties": {"é": {"type": "number", "maximum": 1.50}}, "additionalProperties": false}'
    of_a = [{"name": f"n.s.{prefix}", "subject": f"{prefix}-a", "version": 2}]
    return [
        (f"{prefix}-a", record("x", name=prefix)),
        (f"{prefix}-a", record("x", "y", name=prefix)),
        (f"{prefix}-b", record("x", name=prefix)),
        (f"{prefix}-json", {"schemaType": "JSON", "schema": properties}),
        (f"{prefix}-address", {"schemaType": "PROTOBUF",
            "schema": f'syntax = "proto3"; package {prefix};\nmessage Address {{ string s = 1; }}'}),
        (f"{prefix}-person", {"schemaType": "PROTOBUF", "schema": f'syntax = "proto3"; package {prefix}; import "a.proto";\n'
            'message P { Address home = 1; map<string, int32> m = 2; E e = 3; enum E { X = 0; } }',
            "references": [{"name": "a.proto", "subject": f"{prefix}-address", "version": 1}]}),
        (f"{prefix}-referring", {"references": of_a, "schema": json.dumps(
            {"type": "record", "name": "Q", "fields": [{"name": "r", "type": f"n.s.{prefix}"}]})}),
    ]  # fmt: skip


def write_all(url: str, prefix: str) -> dict[str, list[int]]:
    """Register, configure and delete. Returns the ids of each subject."""
    ids: dict[str, list[int]] = {}

    def sends(method: str, path: str, body: Any = None) -> Any:
        status, answer = send(url, method, path, body)
        assert status == 200, (method, path, answer)
        return answer

    sends("PUT", "/config", {"compatibility": "BACKWARD"})
    for subject, body in content(prefix):
        ids.setdefault(subject, []).append(sends("POST", f"/subjects/{subject}/versions", body)["id"])
    sends("PUT", f"/config/{prefix}-a", {"compatibility": "FULL_TRANSITIVE"})
    sends("PUT", f"/config/{prefix}-b", {"compatibility": "NONE"})
    sends("DELETE", f"/config/{prefix}-b")
    for name in ("gone", "hidden", "cut"):
        sends("POST", f"/subjects/{prefix}-{name}/versions", record(name, name=prefix))
        sends("POST", f"/subjects/{prefix}-{name}/versions", record(name, "more", name=prefix))
    sends("DELETE", f"/subjects/{prefix}-hidden")
    sends("DELETE", f"/subjects/{prefix}-gone")
    sends("DELETE", f"/subjects/{prefix}-gone?permanent=true")
    sends("DELETE", f"/subjects/{prefix}-cut/versions/1")
    return ids


def view(url: str) -> dict[str, Any]:
    """All that a registry says about what is registered, where its answers mean the same in both."""
    seen: dict[str, Any] = {"config": send(url, "GET", "/config")}
    every = sorted(send(url, "GET", "/subjects?deleted=true")[1])
    seen["subjects"] = sorted(send(url, "GET", "/subjects")[1]), every
    for subject in every:
        seen[f"config of {subject}"] = send(url, "GET", f"/config/{subject}?defaultToGlobal=true")
        for suffix in ("", "?deleted=true"):
            seen[f"versions of {subject}{suffix}"] = send(url, "GET", f"/subjects/{subject}/versions{suffix}")
        for version in send(url, "GET", f"/subjects/{subject}/versions?deleted=true")[1]:
            shown = send(url, "GET", f"/subjects/{subject}/versions/{version}?deleted=true")[1]
            same = {name: shown.get(name) or None for name in ("subject", "version", "id", "schemaType", "references")}
            seen[f"{subject} {version}"] = same, send(url, "GET", f"/subjects/{subject}/versions/{version}")[0]
            by_id = send(url, "GET", f"/schemas/ids/{shown['id']}")
            seen[f"id {shown['id']}"] = by_id[0], by_id[1].get("schemaType")
            used = send(url, "GET", f"/schemas/ids/{shown['id']}/versions")
            seen[f"versions of id {shown['id']}"] = used[0], sorted(used[1], key=str)
    return seen


def registered_again(url: str, prefix: str) -> dict[str, list[int]]:
    """Register all of `content` again. Returns the ids."""
    ids: dict[str, list[int]] = {}
    for subject, body in content(prefix):
        ids.setdefault(subject, []).append(send(url, "POST", f"/subjects/{subject}/versions", body)[1]["id"])
    return ids


def test_karapace_takes_over_from_us_and_we_take_over_again(broker: BrokerProcess) -> None:
    ours = url_of(broker)
    ids = write_all(ours, "m")
    with karapace(broker.bootstrap) as theirs:
        assert view(theirs) == view(ours)
        of_karapace = write_all(theirs, "k")
        assert view(theirs) == view(ours)
        again = registered_again(theirs, "m")
    # Karapace writes names of Protobuf types as they are in the request. So it finds the names in our texts to be another schema.
    assert {each: again[each] for each in again if each != "m-person"} == {each: ids[each] for each in ids if each != "m-person"}
    versions = {each: send(ours, "GET", f"/subjects/{each}/versions")[1] for each in of_karapace}
    assert registered_again(ours, "k") == of_karapace
    assert {each: send(ours, "GET", f"/subjects/{each}/versions")[1] for each in of_karapace} == versions
    before = view(ours)
    broker.kill()
    broker.restart()
    assert view(url_of(broker)) == before


def test_both_read_while_one_writes(broker: BrokerProcess) -> None:
    ours = url_of(broker)
    with karapace(broker.bootstrap) as theirs:
        for writer, reader in ((ours, theirs), (theirs, ours)):
            found: list[tuple[int, int]] = []
            for index in range(40):
                name = f"{'m' if writer == ours else 'k'}{index}"
                status, answer = send(writer, "POST", f"/subjects/{name}/versions", record(name))
                assert status == 200, answer

                def reads(reader: str = reader, schema_id: int = answer["id"]) -> bool:
                    return send(reader, "GET", f"/schemas/ids/{schema_id}")[0] == 200

                assert becomes(reads)
                found.append((answer["id"], send(reader, "GET", f"/subjects/{name}/versions/latest")[1]["id"]))
            assert all(one == other for one, other in found)


def test_ids_of_two_writers(broker: BrokerProcess) -> None:
    """Both give ids by themselves: what ends up twice is counted, and printed. Nothing that is registered is lost in either."""
    ours = url_of(broker)
    with karapace(broker.bootstrap) as theirs:
        given: dict[str, int] = {}

        def write(url: str, prefix: str) -> None:
            for index in range(60):
                name = f"{prefix}{index}"
                status, answer = send(url, "POST", f"/subjects/{name}/versions", record(name))
                if status == 200:
                    given[name] = answer["id"]

        writers = [threading.Thread(target=write, args=each) for each in ((ours, "m"), (theirs, "k"))]
        for each in writers:
            each.start()
        for each in writers:
            each.join()
        twice = len(given) - len(set(given.values()))
        print(f"{twice} of {len(given)} ids were given twice")
        assert sorted(given) == sorted(send(ours, "GET", "/subjects")[1])
        assert becomes(lambda: sorted(send(theirs, "GET", "/subjects")[1]) == sorted(given))


MODES = ("READONLY", "READONLY_OVERRIDE", "IMPORT")


def test_karapace_has_no_modes(broker: BrokerProcess) -> None:
    """Modes that are set here are kept in the topic, and mean nothing to Karapace: it answers READWRITE, and registers."""
    ours = url_of(broker)
    assert send(ours, "POST", "/subjects/a/versions", record("x"))[0] == 200
    with karapace(broker.bootstrap) as theirs:
        assert becomes(lambda: send(theirs, "GET", "/subjects")[1] == ["a"])
        for url in (ours, theirs):
            assert send(url, "GET", "/mode") == (200, {"mode": "READWRITE"})
            assert send(url, "GET", "/mode/a?defaultToGlobal=true") == (200, {"mode": "READWRITE"})
        # Karapace calls a subject without schemas unknown, and says of any other that it has the mode. Confluent's registry, and this
        # one, ask whether the subject has a mode of its own.
        unknown = {"error_code": 40401, "message": "Subject 'unknown' not found."}
        none_of_its_own = {"error_code": 40409, "message": "Subject 'unknown' does not have subject-level mode configured"}
        assert send(theirs, "GET", "/mode/unknown") == (404, unknown)
        assert send(ours, "GET", "/mode/unknown") == (404, none_of_its_own)
        assert send(theirs, "GET", "/mode/a") == (200, {"mode": "READWRITE"})
        assert send(ours, "GET", "/mode/a")[1]["error_code"] == 40409
        for path in ("/mode", "/mode/a"):
            assert {send(theirs, method, path, {"mode": "READONLY"})[0] for method in ("PUT", "DELETE")} == {405}
        for number, mode in enumerate(MODES, 2):
            assert send(ours, "PUT", "/mode/a?force=true", {"mode": mode}) == (200, {"mode": mode})
            refused = send(ours, "POST", "/subjects/a/versions", record("x", *MODES[: number - 1]))
            assert (refused[0], refused[1]["error_code"]) == (422, 42205)
            assert send(theirs, "GET", "/mode/a") == (200, {"mode": "READWRITE"})
            assert send(theirs, "POST", "/subjects/a/versions", record("x", *MODES[: number - 1]))[0] == 200
            assert becomes(lambda number=number: send(ours, "GET", "/subjects/a/versions")[1] == [*range(1, number + 1)])  # type: ignore[misc]
        assert send(ours, "GET", "/mode/a") == (200, {"mode": "IMPORT"})
