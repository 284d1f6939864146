"""The rows of the picture and the terminal: how many times as good as Apache Kafka minibroker and kfake are, load by load.

Speeds count as they are, times and memory the other way round, so that longer is better in every row.
"""

from __future__ import annotations

from dataclasses import dataclass

from loads.figures import Better, better

from reporting.results import OURS, Run, Spread
from reporting.tables import short
from reporting.targets import TARGETS


@dataclass(frozen=True)
class Row:
    """One figure of one load."""

    theme: str
    what: str
    load: str
    figure: str
    ours: Spread  #: times as good as Kafka: the median, the least and the best round
    kfake: float | None
    target: float | None  #: minibroker's target on the same scale
    summary: str  #: "624 MB/s, Kafka 265"


#: (theme, what, load, figure): the rows in order; those without figures are left out.
SHOWN = (
    ("Produce", "batches of 64 x 1 kB, throughput", "produce 64 x 1 kB", "MB/s"),
    ("Produce", "batches of 64 x 1 kB, CPU", "produce 64 x 1 kB", "CPU s/GB"),
    ("Produce", "one record a request, throughput", "produce 1 x 100 B", "requests/s"),
    ("Produce", "one record a request, CPU", "produce 1 x 100 B", "CPU us/request"),
    ("Produce", "batches of lz4, throughput", "produce 64 x 1 kB, lz4", "MB/s"),
    ("Produce", "batches of zstd, throughput", "produce 64 x 1 kB, zstd", "MB/s"),
    ("Fetch", "1 consumer, throughput", "fetch by 1 consumer", "MB/s"),
    ("Fetch", "4 consumers, throughput", "fetch 1 MiB", "MB/s"),
    ("Fetch", "4 consumers, CPU", "fetch 1 MiB", "CPU s/GB"),
    ("Fetch", "50 consumers, throughput", "fetch by 50 consumers", "MB/s"),
    ("Fetch", "ListOffsets, requests", "ListOffsets", "requests/s"),
    ("Fetch", "ListOffsets, CPU", "ListOffsets", "CPU us/request"),
    ("Latency", "acknowledged produce, p50", "latency", "acknowledged p50 us"),
    ("Latency", "acknowledged produce, p99", "latency", "acknowledged p99 us"),
    ("Latency", "produce to fetch, p50", "latency", "delivered p50 us"),
    ("Latency", "produce to fetch, p99", "latency", "delivered p99 us"),
    ("Groups and transactions", "first message of a group", "group, first message", "first message p50 us"),
    ("Groups and transactions", "rebalance of 20 members", "group of 20", "rebalance of 20 p50 us"),
    ("Groups and transactions", "offset commits", "group, commits", "commits/s"),
    ("Groups and transactions", "transactions of 4 x 16 kB", "transactions 4 x 16 kB", "transactions/s"),
    ("Spark", "batch reads of small ranges", "Spark, small ranges", "wall s"),
    ("Spark", "read of 1,000,000 records", "Spark, 1,000,000 records", "wall s"),
    ("Footprint", "cold start", "start", "cold start ms"),
    ("Footprint", "idle memory", "start", "idle memory MB"),
    ("Footprint", "memory of an idle connection", "idle connections", "kB/connection"),
)


def rows(run: Run) -> list[Row]:
    """Return the rows that can be shown."""
    found = [_row(run, *each) for each in SHOWN]
    return [each for each in found if each is not None]


def _row(run: Run, theme: str, what: str, load: str, figure: str) -> Row | None:
    more = better(figure) is Better.HIGHER
    ratio = run.ratio("kafka", load, figure)
    ours, kafka, kfake = (run.spread(peer, load, figure) for peer in (OURS, "kafka", "kfake"))
    if ratio is None or ours is None or kafka is None or not ratio.low:
        return None
    times = ratio if more else Spread(1 / ratio.median, 1 / ratio.high, 1 / ratio.low)
    bound = next((target.kafka for target in TARGETS if (target.load, target.figure) == (load, figure)), None)
    return Row(
        theme,
        what,
        load,
        figure,
        times,
        _times(kfake, kafka, more=more),
        None if bound is None else bound if more else 1 / bound,
        f"{_with_unit(ours.median, figure)}, Kafka {short(kafka.median)}",
    )


def _times(other: Spread | None, kafka: Spread, *, more: bool) -> float | None:
    if other is None or not other.median or not kafka.median:
        return None
    return other.median / kafka.median if more else kafka.median / other.median


def _with_unit(value: float, figure: str) -> str:
    """Return the last word of a figure's name, with CPU before it if the name has that."""
    words = figure.replace("us", "µs").split()
    unit = " ".join(words[1:] if words[0] == "CPU" else words[-1:])
    return f"{short(value)} {unit}"
