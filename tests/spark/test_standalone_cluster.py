"""The pipelines of docs/spark.md, word for word, on a standalone cluster of two workers: only addresses are added.

All run in one driver, a process of its own, with one session, for executors take long to start; they import this package from the zip
that the driver sends, not from its place here.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from minibroker.spark import session
from tests.cli.conftest import Commands
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.spark_classes import jvm_options
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SECTION = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().partition("## Pipelines")[2]
COUNT = 500  #: records in each of two partitions

#: told its work as JSON: the master, options of executors' JVMs, calls of minibroker, a program that has `spark`
DRIVER = """
import json, sys
from minibroker.cli.main import main
from minibroker.cli.spark import options
from minibroker.spark.session import kafka_session

master, quick, calls, program = json.loads(sys.argv[1])
spark = kafka_session("readme", master=master, conf={"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": quick})
options.open_session = lambda app_name, **settings: spark
options.close_session = lambda session: None
for words in calls:
    print("$", *words[:2], flush=True)
    try:
        main(words)
    except SystemExit as end:
        if end.code:
            sys.exit(end.code)
print("$ python", flush=True)
exec(program, {"spark": spark})
"""


def test_the_pipelines_of_the_page(tmp_path: Path) -> None:
    problem = session.missing()
    if problem:
        pytest.skip(problem)
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker", *NO_RETENTION) as broker, SparkCluster(tmp_path) as cluster:
        cli = Commands(broker.bootstrap)
        cli("topics", "create", "orders", "--partitions", "2")
        for partition in ("0", "1"):
            cli("produce", "orders", "--partition", partition, stdin="".join(f"{number}\n" for number in range(COUNT)))
        at = ["-b", broker.bootstrap, "-o", "json"]
        calls = [[*shlex.split(call), *at] for call in re.findall(r"^minibroker (spark .*)$", SECTION, re.MULTILINE)]
        program = "".join(re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL))
        program = program.replace("localhost:9092", broker.bootstrap).replace("/var/lib/kafka/data", str(broker.data_dir))
        outputs = drive(tmp_path, cluster.master, calls, program)

        assert json.loads(outputs["spark audit"])["equal"] is True
        assert sorted(map(int, cli("consume", "orders-again", "-e", "-f", "%v\n").lines)) == sorted([*range(COUNT)] * 2)
        assert sum(row["records"] for row in json.loads(outputs["spark sql"])) == 2 * COUNT
        assert (tmp_path / "orders.svg").exists()
        assert outputs["python"] == f"0 {2 * COUNT}\n{2 * COUNT}\n"
        workers = {path.name for path in tmp_path.glob("worker-*") if list(path.glob("app-*/*/minibroker-*.zip"))}
        assert workers == {"worker-0", "worker-1"}


def drive(folder: Path, master: str, calls: list[list[str]], program: str) -> dict[str, str]:
    """What each call printed, by its first two words; and the program, by `python`."""
    work = json.dumps([master, " ".join(jvm_options()), calls, program])
    result = subprocess.run([sys.executable, "-c", DRIVER, work], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    parts = [part.partition("\n") for part in re.split(r"^\$ ", result.stdout, flags=re.MULTILINE)[1:]]
    return {words: output for words, _, output in parts}
