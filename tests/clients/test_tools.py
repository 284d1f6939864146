"""All of Kafka's command-line tools against us and Apache Kafka 4.3.1: the same commands, in use and in error, and the same words.

tests/differential/tools/chapters has the commands, tests/differential/tools/allowed.py what may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.differential.tools.allowed import allowed
from tests.differential.tools.brokers import SETTINGS
from tests.differential.tools.chapters import cluster, configs, groups, load, records, share, streams, topics, transactions
from tests.differential.tools.transcript import CLUSTER_ID, Side, differences
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess
from tests.support.kafka_tools import KafkaTools
from tests.support.soak import IS_SOAK

CHAPTERS = [
    chapter for room in (topics, configs, records, groups, transactions, share, streams, load, cluster) for chapter in room.CHAPTERS
]

Sides = Callable[[], tuple[Side, Side]]


MODES = {"as-usual": False, "like-kafka": True}
IN_CI = list(MODES) if IS_SOAK else ["as-usual"]  # each takes three minutes of Java


@pytest.fixture(scope="module", params=[MODES[name] for name in IN_CI], ids=IN_CI)
def like_kafka(request: pytest.FixtureRequest) -> bool:
    """Whether our broker has `minibroker.like.kafka`: then rules of differences that it turns off must not be needed."""
    return bool(request.param)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, *, like_kafka: bool) -> Iterator[Sides]:
    """Both brokers, with empty transcripts: ours and Kafka's."""
    folders = [tmp_path_factory.mktemp(name) for name in ("ours", "kafka", "files-for-ours", "files-for-kafka", "stdin")]
    settings = {"node.id": "1", "cluster.id": CLUSTER_ID, **SETTINGS}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with (
        BrokerProcess(folders[0], *words, *(["--like-kafka"] if like_kafka else [])) as ours,
        KafkaProcess(folders[1], settings=SETTINGS) as kafka,
        KafkaTools(folders[4]) as tools,
    ):

        def side(broker: BrokerProcess | KafkaProcess, folder: Path) -> Side:
            return Side(tools, broker.bootstrap, folder, data_dir=broker.data_dir)

        yield lambda: (side(ours, folders[2]), side(kafka, folders[3]))
        assert ours.stop() == 0, ours.output
        assert "Traceback" not in ours.output


@pytest.mark.parametrize("chapter", [pytest.param(each, id=f"{each.__module__.rpartition('.')[2]}-{each.__name__}") for each in CHAPTERS])
def test_tools_print_the_same_as_with_kafka(sides: Sides, chapter: Callable[[Side], None], *, like_kafka: bool) -> None:
    ours, kafka = sides()
    for side in (ours, kafka):
        chapter(side)
    found = [difference for difference in differences(ours.steps, kafka.steps) if allowed(difference, like_kafka=like_kafka) is None]
    assert found == [], f"{len(found)} of {len(kafka.steps)} commands differ:\n" + "\n".join(map(str, found))
