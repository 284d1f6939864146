"""A report as text: what is in it, what is left out when there is nothing to tell, and what is cut when there is too much."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from minibroker.spark.report import Bucket, Gap, ProducerInfo, TransactionInfo
from tests.spark.report.test_picture import GROUPS, NOW, report_of, topic_of


def changed(**contents: Any) -> Any:
    """A topic of one partition whose contents are so."""
    topic = topic_of("orders", 1)
    (info,) = topic.partitions
    assert info.contents is not None
    return replace(topic, partitions=(replace(info, contents=replace(info.contents, **contents)),))


def test_a_plain_topic_has_few_columns() -> None:
    text = report_of(topic_of("orders", 2)).to_text()
    assert "orders: 1,991 records of 199 kB, 2 partitions" in text
    assert re.search("ON DISK +RECORDS +BYTES +FIRST RECORD +LAST RECORD$", text, re.MULTILINE)
    assert not re.search("CONTROL|ABORTED|COMPACTED|MISSING|GAPS|GROUP|TRANSACTIONAL", text)
    assert re.search("BYTES +COMPACTED +GAPS +FIRST", report_of(changed(compacted=3, gap_count=1)).to_text())


def test_an_open_transaction_that_begins_at_offset_0_is_told() -> None:
    topic = topic_of("orders", 1)
    producer = ProducerInfo(7, 0, None, NOW, None, 0, None)
    topic = replace(topic, partitions=(replace(topic.partitions[0], producers=(producer,)),))
    text = report_of(topic).to_text()
    assert re.search(r"OPEN SINCE OFFSET\n +0 +7 +0 +- +2026-11-22T14:36:26.000Z +0$", text, re.MULTILINE)
    assert "TRANSACTIONAL ID" not in text


def test_what_is_too_much_is_cut_and_said() -> None:
    gaps = tuple(Gap(100 * number, 100 * number + number, 0, 0, 0, number + 1) for number in range(50))
    buckets = tuple(Bucket(f"2026-01-{day:02}", 10, 1000) for day in range(1, 32)) + tuple(
        Bucket(f"2026-02-{day:02}", 1, 1) for day in range(1, 29)
    )
    text = report_of(changed(gaps=gaps, gap_count=70, buckets=(Bucket(None, 5, 5), *buckets))).to_text()
    assert text.count("\n          0      ") >= 20
    assert "(the longest of 70 gaps)" in text
    assert re.search(r"^ +0 +4900 +4949 +50 +50$", text, re.MULTILINE)
    assert not re.search(r"^ +0 +2900 ", text, re.MULTILINE)
    assert re.search(r"^29 days before +285 +28.0 kB$", text, re.MULTILINE)
    topic = topic_of("orders", 1)
    producers = tuple(ProducerInfo(number, 0, 1, NOW + number, None, 5 if number == 0 else None, None) for number in range(100))
    text = report_of(replace(topic, partitions=(replace(topic.partitions[0], producers=producers),))).to_text()
    assert "(and 80 more)" in text
    assert re.search(r"^ +0 +0 +0 +1 +2026\S+ +5$", text, re.MULTILINE)  # the open one
    assert re.search(r"^ +0 +99 ", text, re.MULTILINE)
    assert not re.search(r"^ +0 +50 ", text, re.MULTILINE)


def test_groups_transactions_and_notes() -> None:
    transaction = TransactionInfo("importer", 3, 0, "Ongoing", 60_000, NOW, ("orders-0", "orders-1"))
    found = replace(report_of(topic_of("orders", 1), groups=GROUPS), transactions=(transaction,), notes=("sizes are unknown: no",))
    text = found.to_text()
    assert re.search(r"^group-b +classic +Empty +orders +0 +500 +20000$", text, re.MULTILINE)
    assert re.search(r"^importer +Ongoing +3 +0 +60000 +2026-11-22T14:36:26.000Z +orders-0,orders-1$", text, re.MULTILINE)
    assert text.endswith("Note: sizes are unknown: no")
