"""Topics of Kafka itself are not deleted by a slip: a question on a terminal, a refusal in a script."""

from __future__ import annotations

import io
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minibroker.cli import options
from minibroker.cli.main import main
from minibroker.client.client import Client
from minibroker.schemas import k03_metadata, k20_delete_topics
from minibroker.wire.schema import replace
from tests.client.fake_broker import FakeBroker

WARNING = "__consumer_offsets holds the committed offsets of all groups"


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker(topics={"orders": 1, "__consumer_offsets": 50, "__mine": 1})

    def metadata(request: k03_metadata.Request, version: int) -> k03_metadata.Response:
        response = made._metadata(request, version)
        return replace(response, topics=[replace(topic, is_internal=topic.name == "__consumer_offsets") for topic in response.topics])

    def deletion(request: Any, version: int) -> k20_delete_topics.Response:
        return k20_delete_topics.Response(
            responses=[k20_delete_topics.TopicResult(name=each.name, error_code=0) for each in request.topics]
        )

    made.on(k03_metadata, metadata)
    made.on(k20_delete_topics, deletion)
    monkeypatch.setattr(options, "open_client", lambda *_: Client("fake:1", connect=made.connect))
    return made


def delete(*words: str, stdin: io.BytesIO | None = None) -> Result:
    return CliRunner().invoke(main, ["topics", "delete", *words], input=stdin)


def deleted(broker: FakeBroker) -> list[str | None]:
    return [topic.name for request in broker.requests_for(k20_delete_topics) for topic in request.topics]


def test_a_script_is_refused(broker: FakeBroker) -> None:
    ended = delete("orders", "__consumer_offsets")
    assert (ended.exit_code, ended.stderr) == (
        2,
        f"Error: {WARNING}: to delete it nevertheless, give --yes. Try 'minibroker topics delete --help'.\n",
    )
    assert deleted(broker) == []


def test_yes_option_skips_the_prompt(broker: FakeBroker) -> None:
    assert delete("orders", "__consumer_offsets", "--yes").exit_code == 0
    assert deleted(broker) == ["orders", "__consumer_offsets"]


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_interactive_user_is_prompted(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, answer: bytes, code: int) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _self: True, raising=False)
    ended = delete("__consumer_offsets", stdin=Terminal(answer))
    assert ended.exit_code == code
    assert f"{WARNING}. Delete it nevertheless? [y/N]" in ended.stderr
    assert ("nothing was deleted" in ended.stderr) is (code == 1)
    assert deleted(broker) == ([] if code else ["__consumer_offsets"])


@pytest.mark.parametrize("name", ["orders", "__mine"])
def test_others_are_deleted_at_once(broker: FakeBroker, name: str) -> None:
    assert delete(name).exit_code == 0
    assert deleted(broker) == [name]
