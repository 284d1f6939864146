"""`produce` and `consume`: what goes in comes out, to and from a broker of ours and Apache Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Cluster, Commands, wait_until_complete

ALL = "%p %o %T [%k] [%v] {%h} %K %S\\n"


def test_lines_go_in_and_come_out_in_order(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    assert cli("produce", topic, stdin="one\ntwo\n\nfour").out == ""
    assert cli("consume", topic, "-e").out == "one\ntwo\n\nfour\n"


def test_keys_headers_timestamp_and_null_against_empty(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    options = ["-K", ":", "-H", "a=1", "-H", "empty=", "-H", "none", "--timestamp", "2013-01-01"]
    cli("produce", topic, *options, stdin="k:v\n:x\nk:\nplain\n")
    cli("produce", topic, *options, "-Z", stdin=":x\nk:\n")
    assert cli("consume", topic, "-e", "-Z", "-f", ALL).lines == [
        "0 0 1356998400000 [k] [v] {a=1,empty=,none=NULL} 1 1",
        "0 1 1356998400000 [] [x] {a=1,empty=,none=NULL} 0 1",
        "0 2 1356998400000 [k] [] {a=1,empty=,none=NULL} 1 0",
        "0 3 1356998400000 [NULL] [plain] {a=1,empty=,none=NULL} -1 5",
        "0 4 1356998400000 [NULL] [x] {a=1,empty=,none=NULL} -1 1",
        "0 5 1356998400000 [k] [NULL] {a=1,empty=,none=NULL} 1 -1",
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(cli: Commands, fresh: Callable[..., str], codec: str) -> None:
    topic = fresh()
    lines = "".join(f"line {number}\n" for number in range(2000))
    cli("produce", topic, "-z", codec, stdin=lines)
    assert cli("consume", topic, "-e").out == lines


@pytest.mark.parametrize("acks", [["--acks", "0"], ["--acks", "1"], ["--acks", "all"], ["--no-idempotent"]], ids=" ".join)
def test_acknowledgements(cli: Commands, fresh: Callable[..., str], acks: list[str]) -> None:
    topic = fresh()
    cli("produce", topic, *acks, stdin="a\nb\n")
    assert cli("consume", topic, "-c", "2", "--idle-timeout", "10").out == "a\nb\n"


def test_delimiters_and_bytes(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    cli("produce", topic, "-D", "\\x00", "-K", "\\t", stdin=b"k\t\xff\xfe\x00two\nlines\x00")
    assert cli("consume", topic, "-e", "-f", "%k=%v;").raw == b"k=\xff\xfe;=two\nlines;"


def test_files_lines_and_whole(cli: Commands, fresh: Callable[..., str], tmp_path: Path) -> None:
    topic = fresh()
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3")
    cli("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-", stdin="4\n")
    cli("produce", topic, "--input", "whole", str(tmp_path / "a"))
    assert cli("consume", topic, "-e", "-f", "%v;").out == "1;2;3;4;1\n2\n;"


def test_partition_of_keys_is_that_of_java(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh(partitions=7)
    cli("produce", topic, "-K", ":", stdin="21:\nfoobar:\nabc:\n")
    # murmur2 as in Kafka's UtilsTest, sign bit cleared, modulo 7
    expected = {key: (hashed & 0x7FFFFFFF) % 7 for key, hashed in {"21": -973932308, "foobar": -790332482, "abc": 479470107}.items()}
    assert dict(line.split() for line in cli("consume", topic, "-e", "-f", "%k %p\\n").lines) == {k: str(p) for k, p in expected.items()}


def test_produce_prints_offsets(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh(partitions=2)
    cli("produce", topic, "-p", "1", stdin="a\n")
    result = cli("produce", topic, "-p", "1", "-o", "json", "--batch-bytes", "20", stdin="b\nc\nd\n")
    assert json.loads(result.out) == [{"topic": topic, "partition": 1, "records": 3, "first_offset": 1, "last_offset": 3}]


def test_a_topic_is_created_on_first_use(cli: Commands) -> None:
    name = f"first-use-{os.getpid()}"
    cli("produce", name, stdin="a\n")
    assert cli("consume", name, "-e").out == "a\n"
    cli("topics", "delete", name)


def test_json_lines_are_a_way_back(cli: Commands, fresh: Callable[..., str]) -> None:
    topic, copy = fresh(), fresh()
    lines = [
        {"key": "k", "value": "v", "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}], "timestamp": 1356998400000},
        {"key": None, "value": {"base64": "/wA="}, "headers": [], "timestamp": 1356998400001},
        {"key": "", "value": None, "headers": [], "timestamp": 1356998400002, "partition": 0},
    ]
    cli("produce", topic, "--input", "jsonl", stdin="\n".join(json.dumps(line) for line in lines))
    consumed = cli("consume", topic, "-e", "-o", "jsonl")
    found = [json.loads(line) for line in consumed.lines]
    assert found[0] == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1356998400000,
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
    }
    assert [(item["key"], item["value"]) for item in found[1:]] == [(None, {"base64": "/wA="}), ("", None)]
    cli("produce", copy, "--input", "jsonl", stdin=consumed.raw)
    assert cli("consume", copy, "-e", "-o", "jsonl").out == consumed.out.replace(topic, copy)


def test_other_forms_hold_the_same(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    cli("produce", topic, "-K", ":", "--timestamp", "2013-01-01", stdin="a:1\nb:2\n")
    items = [json.loads(line) for line in cli("consume", topic, "-e", "-o", "jsonl").lines]
    assert json.loads(cli("consume", topic, "-e", "-o", "json").out) == items
    assert yaml.safe_load(cli("consume", topic, "-e", "-o", "yaml").out) == items
    rows = [line.split() for line in cli("consume", topic, "-e", "-o", "table").lines]
    assert rows[0] == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE", "HEADERS"]
    assert [row[:5] for row in rows[1:]] == [["0", "0", "1356998400000", "a", "1"], ["0", "1", "1356998400000", "b", "2"]]
    assert json.loads(cli("consume", topic, "-c", "0", "-o", "json").out) == []


@pytest.fixture
def years(cli: Commands, fresh: Callable[..., str]) -> str:
    """Two partitions: 0 with records of 2013 to 2015, 1 with one of 2013."""
    topic = fresh(partitions=2)
    for partition, year in ((0, 2013), (0, 2014), (0, 2015), (1, 2013)):
        cli("produce", topic, "-p", str(partition), "--timestamp", f"{year}-01-01", stdin=f"{partition}-{year}\n")
    return topic


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", ["0-2013", "0-2014", "0-2015", "1-2013"]),
        ("latest", []),
        ("1", ["0-2014", "0-2015"]),
        ("-1", ["0-2015", "1-2013"]),
        ("-10", ["0-2013", "0-2014", "0-2015", "1-2013"]),
        ("2014-01-01", ["0-2014", "0-2015"]),
        ("@1388534400001", ["0-2015"]),
    ],
)
def test_where_to_begin(cli: Commands, years: str, start: str, expected: list[str]) -> None:
    assert sorted(cli("consume", years, "-e", "--from", start).lines) == expected


def test_partitions_and_count(cli: Commands, years: str) -> None:
    assert cli("consume", years, "-e", "-p", "1").lines == ["1-2013"]
    assert cli("consume", years, "-c", "2", "-p", "0").lines == ["0-2013", "0-2014"]
    assert "has no partition 2 (it has 2)" in cli("consume", years, "-e", "-p", "0-2", code=1).err


def test_several_topics(cli: Commands, fresh: Callable[..., str]) -> None:
    first, second = fresh(2), fresh()
    cli("produce", first, "-p", "1", stdin="a\nb\n")
    cli("produce", second, stdin="c\n")
    expected = [f"{first} 1 0 a", f"{first} 1 1 b", f"{second} 0 0 c"]
    form = ["-e", "-f", "%t %p %o %v\\n"]
    assert sorted(cli("consume", first, second, first, *form).lines) == expected
    assert sorted(cli("consume", "--topic-pattern", f"{first}|{second}", *form).lines) == expected
    assert cli("consume", first, second, "-e", "-o", "table").lines[0].split()[:2] == ["TOPIC", "PARTITION"]
    assert f"no topic matches no-{first}.*" in cli("consume", "--topic-pattern", f"no-{first}.*", "-e", code=1).err


def test_a_group_goes_on_where_it_was(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    group = f"readers-of-{topic}"
    cli("produce", topic, stdin="a\nb\nc\n")
    assert cli("consume", topic, "--group", group, "-c", "2").lines == ["a", "b"]
    assert cli("consume", topic, "--group", group, "-e").lines == ["c"]
    cli("produce", topic, stdin="d\n")
    assert cli("consume", topic, "-g", group, "-e").lines == ["d"]
    (found,) = json.loads(cli("groups", "describe", group, "-o", "json").out)
    assert (found["committed_offset"], found["lag"], found["owner"]) == (4, 0, None)
    assert cli("consume", topic, "-g", f"late-{group}", "--from", "-1", "-e").lines == ["d"]


def test_both_isolation_levels(cli: Commands, years: str) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        assert len(cli("consume", years, "-e", "--isolation", isolation).lines) == 4


def test_transactions(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    from tests.support.confluent import Producer

    topic = fresh()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for name, end in (("one", producer.commit_transaction), ("two", producer.abort_transaction), ("three", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, name)
        producer.flush()
        end()
    wait_until_complete(cli, topic)
    assert cli("consume", topic, "-e", "--isolation", "read_committed").lines == ["one", "three"]
    assert cli("consume", topic, "-e").lines == ["one", "two", "three"]


def test_waiting_in_vain_is_code_124(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh()
    cli("produce", topic, stdin="a\n")
    result = cli("consume", topic, "-c", "2", "--idle-timeout", "0.2", code=124)
    assert result.out == "a\n"
    assert result.err == "Error: no record arrived for 0.2 s\n"


def test_failures_are_one_line(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh(**{"max.message.bytes": "100"})
    for arguments, stdin, words in [
        (("consume", "gone", "-e"), "", "topic gone does not exist"),
        (("consume", topic, "--from", "7"), "", f"offset 7 of {topic}-0 does not exist: it is empty, and the next offset is 0"),
        (("produce", topic), "x" * 1000, "[MESSAGE_TOO_LARGE]"),
        (("produce", topic, "-p", "3"), "x", f"topic {topic} has no partition 3"),
        (("produce", topic, "--input", "jsonl"), "{}\n{", "stdin, record 2: "),
        (("produce", topic, "--input", "jsonl"), '{"value": 5}', "stdin, record 1: a key or value must be"),
        (("produce", topic, "--input", "jsonl"), '{"valu": "5"}', "stdin, record 1: the object has none of the fields headers, key"),
    ]:
        error = cli(*arguments, stdin=stdin, code=1).err
        assert words in error
        assert error.startswith("Error: ")
        assert error.count("\n") == 1


def test_large_records_and_split_batches(cli: Commands, fresh: Callable[..., str]) -> None:
    topic = fresh(**{"max.message.bytes": "1000"})
    lines = "".join(f"{number:0100}\n" for number in range(100))
    cli("produce", topic, stdin=lines)
    assert cli("consume", topic, "-e").out == lines
    topic = fresh()
    cli("produce", topic, stdin="x" * 900_000)
    assert cli("consume", topic, "-e").out == "x" * 900_000 + "\n"


def test_wrong_usage_of_topics_and_groups(offline: Commands) -> None:
    assert "give either TOPICS or --topic-pattern" in offline("consume", "-e", code=2).err
    assert "give either TOPICS or --topic-pattern" in offline("consume", "t", "--topic-pattern", "t", code=2).err
    assert "--group assigns partitions: leave out -p" in offline("consume", "t", "-g", "g", "-p", "0", code=2).err


def test_wrong_usage(offline: Commands) -> None:
    for arguments, words in [
        (("consume", "t", "-f", "%q"), "%q is unknown"),
        (("consume", "t", "-f", "%v", "-o", "json"), "-f needs -o format"),
        (("consume", "t", "-o", "table"), "needs an end"),
        (("consume", "t", "--from", "sometime"), "'sometime' is not earliest"),
        (("produce", "t", "-D", ""), "must not be empty"),
        (("produce", "t", "--idempotent", "--acks", "1"), "--idempotent needs --acks all"),
        (("produce", "t", "--timestamp", "soon"), "'soon' is neither"),
    ]:
        assert words in offline(*arguments, code=2).err


def start(cluster: Cluster, *arguments: str, **pipes: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "minibroker", *arguments, "-b", cluster.bootstrap]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **pipes)  # type: ignore[call-overload,no-any-return]  # pipes are pipes


def test_closed_pipe_ends_the_command_quietly(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic = fresh()
    cli("produce", topic, stdin="line\n" * 50_000)
    with start(cluster, "consume", topic, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr
        assert process.stderr.read() == b""


def test_ctrl_c_ends_it_quietly_with_code_130(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic = fresh()
    cli("produce", topic, stdin="a\n")
    with start(cluster, "consume", topic, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"a\n"
        process.send_signal(2)
        assert process.wait(60) == 130
        assert process.stderr
        assert process.stderr.read() == b""


def test_a_slow_source_is_sent_while_it_is_silent(cli: Commands, cluster: Cluster, fresh: Callable[..., str]) -> None:
    topic = fresh()
    with start(cluster, "produce", topic, stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(b"early\n")
        process.stdin.flush()
        assert cli("consume", topic, "-c", "1", "--idle-timeout", "60").out == "early\n"
        assert process.poll() is None
        process.stdin.write(b"late\n")
        process.stdin.close()
        assert process.wait(60) == 0
    assert cli("consume", topic, "-e").out == "early\nlate\n"
