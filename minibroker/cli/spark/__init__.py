"""`minibroker spark`: pipelines between topics and tables. PySpark is imported when a command runs."""

from __future__ import annotations

from importlib.util import find_spec

import click

from minibroker.cli.main import LazyGroup

COMMANDS = {
    name: (f"minibroker.cli.spark.{name}", name, words)
    for name, words in {
        "archive": "Write topics to a table, each record exactly once.",
        "audit": "Compare topics with an archive or another cluster.",
        "replay": "Write the records of a table to topics.",
        "report": "Show what topics hold: offsets, days, gaps, producers, lag.",
        "sql": "Query topics, log directories and archives with SQL.",
    }.items()
    if find_spec(f"minibroker.cli.spark.{name}")
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    epilog="""\b
Examples:
  minibroker spark sql 'SELECT partition, count(*) FROM orders GROUP BY partition'
""",
)
def spark() -> None:
    """Run pipelines between topics and tables, on Spark.

    The pipelines need Java 17 or 21 and `pip install 'minibroker[spark]'`. They work with any Kafka cluster.
    """
